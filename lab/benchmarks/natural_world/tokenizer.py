"""Words and pieces of words; names of tables and columns fall into their words.

``singer_id`` is ``singer _ id``, so that a question and a schema say "singer" with one token. What
stands in quotes in a query is words, too, in their own spelling, so that it can be copied.
"""

import re
from collections.abc import Iterable

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from lab.worlds.small_model import SPECIAL, UNKNOWN, with_special_tokens

OPEN, CLOSE = "<'", "'>"
"""The quotes of a text in a query; decoding takes the blanks off on their inner side."""
PHRASES = (
    *("count ( * )", "count ( distinct", "count (", "avg (", "max (", "min (", "sum ("),
    *("order by", "group by", "select distinct", "limit 1", "( select", "in ( select"),
    *("not exists ( select 1 from", "exists ( select 1 from", "with c as ( select * from"),
    *(f"t{i} ." for i in range(1, 7)),
    *(f"as t{i}" for i in range(1, 7)),
)
"""Runs of words that are one token, to keep answers short."""
VOCABULARY = 4000
_TEXT = re.compile(r"'((?:[^']|'')*)'")


def with_marks(query: str) -> str:
    """A query with marks for the quotes, as the tokenizer takes it.

    >>> with_marks("where name = 'New York'")
    "where name = <' New York '>"
    """
    return _TEXT.sub(lambda text: f"{OPEN} {text[1]} {CLOSE}", query)


def make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer with the words and pieces of ``texts``; decoding gives queries back."""
    trained = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    trained.normalizer = normalizers.Replace("_", " _ ")
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    reserved = [*SPECIAL, OPEN, CLOSE, *PHRASES]
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, min_frequency=2, show_progress=False, special_tokens=reserved
    )
    trained.train_from_iterator(texts, trainer)
    vocabulary = trained.get_vocab()
    backend = Tokenizer(
        models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=100)
    )
    backend.normalizer = trained.normalizer
    phrases = "|".join(sorted(map(re.escape, PHRASES), key=len, reverse=True))
    split = rf"(?:{phrases})(?!\S)|\S+"
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(split), behavior="removed", invert=True)
    backend.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix="##", cleanup=False),
            decoders.Fuse(),
            *(decoders.Replace(a, b) for a, b in _GLUE),
        ]
    )
    return with_special_tokens(backend)


_GLUE = ((f"{OPEN} ", "'"), (f" {CLOSE}", "'"), (" _ ", "_"), ("_ ", "_"), (" _", "_"))
