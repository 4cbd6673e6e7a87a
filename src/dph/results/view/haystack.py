"""Texts to search in, one or many for each problem, in a file without a name.

Signatures of trigrams tell which pieces of the file can have a word (``trigrams``); those are
looked through at a gigabyte a second and more. Only where the pieces end is kept in memory.
"""

import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Bool, Int

from dph.results.view.trigrams import Trigrams

_BLOCK = 8 * 2**20
"""Bytes that are looked through at once."""
_BETWEEN = b"\xff"
"""Ends a text: no byte of UTF-8, so no word reaches from one text into the next."""


class Haystack:
    """Texts in small letters, by problem; problems are added in order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - requests may still look through it
        weakref.finalize(self, self._file.close)
        self._ends: list[int] = []
        self._trigrams = Trigrams()

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, texts: Iterable[str]) -> None:
        """The texts of the next problem, each once."""
        end = self._ends[-1] if self._ends else 0
        for text in dict.fromkeys(texts):
            data = _small(text) + _BETWEEN
            self._file.write(data)
            self._trigrams.add(data)
            end += len(data)
        self._ends.append(end)

    def flush(self) -> None:
        """Let what was added be found; nothing is added afterwards."""
        self._file.flush()
        self._trigrams.flush()

    def having(
        self, word: str, known: Bool[np.ndarray, "problems"] | None = None
    ) -> Bool[np.ndarray, "problems"]:
        """Which of the problems have a text with ``word`` in it, in letters of any size.

        Of those that are ``known`` to have it somewhere else nothing is said: they may be left out.
        """
        wanted = _small(word)
        found = np.zeros(len(self._ends), dtype=bool)
        if not wanted:
            return found
        pieces = self._trigrams.pieces(wanted)
        if known is not None:
            pieces &= self._asked(~known)
        for start, end in _blocks(pieces, self._trigrams.ends):
            block = os.pread(self._file.fileno(), end - start, start)
            found[list(self._places(block, start, wanted))] = True
        return found

    def _asked(self, problems: Bool[np.ndarray, "problems"]) -> Bool[np.ndarray, "pieces"]:
        """The pieces that hold a text of one of the problems."""
        ends = self._trigrams.ends
        starts = np.concatenate([[0], ends[:-1]])
        before = np.concatenate([[0], np.cumsum(problems)])
        first = np.searchsorted(self._ends, starts, side="right")
        last = np.searchsorted(self._ends, ends, side="left")
        return np.asarray(before[last + 1] > before[first])

    def _places(self, block: bytes, start: int, word: bytes) -> Iterator[int]:
        """The problems of a block that have the word: after a hit the next problem is looked at."""
        at = block.find(word)
        while at >= 0:
            place = bisect_right(self._ends, start + at)
            yield place
            at = block.find(word, self._ends[place] - start)


def _blocks(
    pieces: Bool[np.ndarray, "pieces"], ends: Int[np.ndarray, "pieces"]
) -> Iterator[tuple[int, int]]:
    """First byte and end of what has to be read: neighbouring pieces together, up to a size."""
    chosen = np.flatnonzero(pieces)
    starts = np.concatenate([[0], ends])[chosen].tolist()
    start = end = -1
    for first, last in zip(starts, ends[chosen].tolist(), strict=True):
        if first != end or last - start > _BLOCK:
            if end > start:
                yield start, end
            start = first
        end = last
    if end > start:
        yield start, end


def _small(text: str) -> bytes:
    return text.lower().encode("utf-8", errors="surrogatepass")
