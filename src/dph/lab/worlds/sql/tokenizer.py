"""The word-level tokenizer of the quickstart world: one for every seed."""

import re
from collections.abc import Sequence

from tokenizers import Regex, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dph.lab.worlds.sql.arithmetic import LARGEST_ANSWER
from dph.lab.worlds.sql.domains import DOMAINS, KEY, TEXT_POOLS
from dph.lab.worlds.sql.questions import AGGREGATES, OPERATORS, THRESHOLDS
from dph.lab.worlds.sql.styles import STYLES
from dph.lab.worlds.word_tokenizer import SPECIAL, word_tokenizer

QUESTION_WORDS = ("show", "how many", "of", "with", "whose", "has", "and", "|", "->")
SUM_WORDS = ("had", "got", "lost", "then", "?", "calc:", "think:", "so")
SQL_WORDS = (
    *("SELECT", "FROM", "WHERE", "AND", "JOIN", "(", ")", ";", "c", "keep", "sort"),
    *("count ( * )", "SELECT * FROM", "WITH c AS (", "ORDER BY", "LIMIT 1"),
    *("AS p", "AS q", "p .", "q .", f"USING ( {KEY} )", f"{KEY} IN ("),
    *(f"{function} (" for function in AGGREGATES.values()),
)


def vocabulary() -> tuple[str, ...]:
    """Every token, in the order of the ids; some are fixed phrases, to keep answers short."""
    columns = [column for domain in DOMAINS for column in domain.columns]
    words = [
        *SPECIAL,
        *(f"{style}:" for style in STYLES),
        *SQL_WORDS,
        *QUESTION_WORDS,
        *SUM_WORDS,
        *OPERATORS,
        *OPERATORS.values(),
        *AGGREGATES,
        KEY,
        *(table.name for domain in DOMAINS for table in domain.tables),
        *(column.name for column in columns),
        *(column.term for column in columns),
        *(f"'{value}'" for pool in TEXT_POOLS for value in pool),
        *(str(number) for number in (*range(LARGEST_ANSWER + 1), *THRESHOLDS)),
    ]
    return tuple(dict.fromkeys(words))


def _pattern() -> str:
    """What a token looks like: a fixed phrase, or a word."""
    phrases = sorted((re.escape(t) for t in vocabulary() if " " in t), key=len, reverse=True)
    return rf"(?:{'|'.join(phrases)})(?!\S)|\S+"


class TextEncoder:
    """The tokenizer's ids, without its beginning, several times as fast for short texts."""

    def __init__(self) -> None:
        self._ids = {token: index for index, token in enumerate(vocabulary())}
        self._tokens = re.compile(_pattern())

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; a word that is not in the vocabulary is a ``KeyError``."""
        return [[self._ids[token] for token in self._tokens.findall(text)] for text in texts]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; decoding gives back every text of the world, blank for blank."""
    split = pre_tokenizers.Split(Regex(_pattern()), behavior="removed", invert=True)
    return word_tokenizer(vocabulary(), split)
