"""The tokenizer of SmolLM2, of the tokens and merges that its GGUF file has."""

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from dph.errors import DataError
from dph.lab.smollm2.gguf_file import GgufFile

_SPECIAL = 3
"""GGUF's kind of a token that controls and is no text."""


def smollm2_tokenizer(file: GgufFile) -> Tokenizer:
    """A byte-level BPE whose digits are tokens of their own.

    Raises:
        DataError: the file has a tokenizer of another kind.
    """
    kind = (file.fact("tokenizer.ggml.model"), file.fact("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise DataError(f"the model file has a tokenizer {kind}, this reads ('gpt2', 'smollm')")
    tokens, kinds = file.fact("tokenizer.ggml.tokens"), file.fact("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in file.fact("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(
        models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _SPECIAL
        ]
    )
    return tokenizer


def tokenizer_config(file: GgufFile) -> dict[str, Any]:
    """What stands in ``tokenizer_config.json``: which special tokens are for what."""
    tokens = file.fact("tokenizer.ggml.tokens")
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{
            f"{ours}_token": tokens[file.fact(f"tokenizer.ggml.{theirs}_token_id")]
            for ours, theirs in named.items()
        },
        "model_max_length": file.fact("llama.context_length"),
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
    }
