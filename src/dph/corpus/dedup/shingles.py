"""The word 5-grams of a text, as 64-bit hashes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dph.corpus.dedup.words import mixed, word_hashes, words_in

WORDS = 5
"""In a row, a shingle (BigCode's convention; OpenCoder does not say words or characters)."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def shingle_hashes(text: str, length: int = WORDS) -> NDArray[np.uint64]:
    """A hash for each run of ``length`` words, in order, repeated ones too; empty below that.

    Equal shingles have equal hashes; different ones do with a probability of about 2**-64 a pair.

    Computed as: sum of h(word_i) * c**(length - 1 - i) modulo 2**64, mixed, because MinHash wants
    hashes without structure.

    >>> len(shingle_hashes("one two three four five six"))
    2
    """
    return _hashes_of_runs(word_hashes(text), length)


def shingle_hashes_of(
    texts: Sequence[str], length: int = WORDS
) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """``shingle_hashes`` of several texts, one after the other, and how many each of them has.

    Computed as: of the texts joined, without the runs that would go from one into the next. Small
    files come several times as cheap as one by one.
    """
    hashes, starts = words_in("\n".join(texts))
    text_starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
    bounds = np.searchsorted(starts, text_starts)
    counts = np.maximum(np.diff(bounds) - length + 1, 0)
    runs = _hashes_of_runs(hashes, length)
    within = np.ones(len(runs), dtype=np.bool_)
    for before in range(1, length):
        places = bounds[1:] - before
        within[places[(places >= 0) & (places < len(runs))]] = False
    return runs[within], counts


def _hashes_of_runs(hashes: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    count = len(hashes) - length + 1
    if count < 1:
        return np.empty(0, dtype=np.uint64)
    total = hashes[:count].copy()
    for place in range(1, length):
        total *= _FACTOR
        total += hashes[place : place + count]
    return mixed(total)


def shingle_set(text: str) -> NDArray[np.uint64]:
    """The hashes of the shingles of a text, each once, ascending."""
    return np.unique(shingle_hashes(text))


def jaccard(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    """Shared shingles over all shingles of two sets of ``shingle_set``; 0 if both are empty.

    >>> a, b = shingle_set("a b c d e f g"), shingle_set("a b c d e f h")
    >>> jaccard(a, b)  # two of four
    0.5
    """
    shared = len(np.intersect1d(first, second, assume_unique=True))
    union = len(first) + len(second) - shared
    return shared / union if union else 0.0
