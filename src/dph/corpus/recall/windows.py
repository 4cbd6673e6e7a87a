"""Examples of one length: a classifier must not learn that seeds are short.

Seeds of a line and pages of a thousand words are told apart by nothing but their length, and then
no page scores well, however right the ranking is. So both kinds are learnt from in windows whose
lengths are those of the shorter kind.
"""

from collections.abc import Iterator
from itertools import cycle
from statistics import median

from dph.corpus.documents import Document, position
from dph.corpus.shards import Corpus
from dph.corpus.tables import read_table


class Windows:
    """Cuts examples, one after the other, to the lengths of the shorter of two corpora.

    Args:
        seeds: one kind; its lengths are taken in its order, again and again.
        pages: the other.
        longest: characters that a window never passes.
    """

    def __init__(self, seeds: Corpus, pages: Corpus, *, longest: int) -> None:
        kinds = [lengths for corpus in (seeds, pages) if (lengths := list(_lengths(corpus)))]
        shorter = min(kinds, key=median, default=[longest])
        self._lengths: dict[bool, Iterator[int]] = {kind: cycle(shorter) for kind in (True, False)}
        self._longest = longest

    def cut(self, document: Document, *, seed: bool) -> str:
        """A window of the document's text, whole words, at a place that its id decides."""
        text, length = document.text, min(max(next(self._lengths[seed]), 1), self._longest)
        if len(text) <= length:
            return text
        start = position(document.id) % (len(text) - length + 1)
        window = text[start : start + length]
        if start and not text[start - 1].isspace() and (blank := _first_blank(window)):
            return window[blank:].lstrip()  # not from the middle of a word
        return window


def _first_blank(text: str) -> int:
    return next((place for place, char in enumerate(text) if char.isspace()), 0)


def _lengths(corpus: Corpus) -> Iterator[int]:
    """Bytes of each document, which are about its characters."""
    for shard in corpus.shards:
        for row in read_table(corpus.path(shard), ("bytes",)):
            yield row["bytes"]
