"""The word-level tokenizer of the Countdown world: a token for each number and sign."""

from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dph.lab.worlds.countdown.steps import LARGEST, OPERATORS
from dph.lab.worlds.word_tokenizer import SPECIAL, word_tokenizer


def vocabulary() -> tuple[str, ...]:
    """Every token, in the order of the ids; a number is never split."""
    numbers = map(str, range(1, LARGEST + 1))
    return (*SPECIAL, ":", "->", ",", "=", *OPERATORS, *numbers)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; decoding gives back every text of the world, blank for blank."""
    return word_tokenizer(vocabulary(), pre_tokenizers.WhitespaceSplit())
