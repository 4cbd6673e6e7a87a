"""Texts to search in, one or many for each problem, in a file without a name.

Scanned from the beginning for every word: at a gigabyte a second and more that is quick enough for
a million answers, takes no memory and needs no index that is larger than the texts.
"""

import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool

_BLOCK = 8 * 2**20
"""Bytes that are looked through at once."""
_BETWEEN = b"\n"


class Haystack:
    """Texts in small letters, by problem; problems are added in order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - requests may still look through it
        weakref.finalize(self, self._file.close)
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, texts: Iterable[str]) -> None:
        """The texts of the next problem, each once."""
        data = _BETWEEN.join(_small(text) for text in dict.fromkeys(texts)) + _BETWEEN
        self._file.write(data)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))

    def flush(self) -> None:
        """Let what was added be found."""
        self._file.flush()

    def having(self, word: str) -> Bool[np.ndarray, "problems"]:
        """Which of the problems have a text with ``word`` in it, in letters of any size."""
        ends, wanted = self._ends[:], _small(word)
        found = np.zeros(len(ends), dtype=bool)
        first = 0
        while first < len(ends) and wanted:
            start = ends[first - 1] if first else 0
            last = max(bisect_right(ends, start + _BLOCK), first + 1)
            block = os.pread(self._file.fileno(), ends[last - 1] - start, start)
            for place in _places(block, [end - start for end in ends[first:last]], wanted):
                found[first + place] = True
            first = last
        return found


def _places(block: bytes, ends: list[int], word: bytes) -> Iterable[int]:
    """The problems of a block that have the word: after a hit the next problem is looked at."""
    at = block.find(word)
    while at >= 0:
        place = bisect_right(ends, at)
        if at + len(word) <= ends[place]:
            yield place
            at = block.find(word, ends[place])
        else:  # begins in one problem and ends in the next
            at = block.find(word, at + 1)


def _small(text: str) -> bytes:
    return text.lower().encode("utf-8", errors="surrogatepass")
