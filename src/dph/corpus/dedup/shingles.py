"""The word 5-grams of a text, as 64-bit hashes."""

import numpy as np
from numpy.typing import NDArray

from dph.corpus.dedup.words import mixed, word_hashes

WORDS = 5
"""In a row, a shingle (BigCode's convention; OpenCoder does not say words or characters)."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def shingle_hashes(text: str) -> NDArray[np.uint64]:
    """A hash for each run of 5 words, in order, repeated ones too; empty below 5 words.

    Equal shingles have equal hashes; different ones do with a probability of about 2**-64 a pair.

    Computed as: sum of h(word_i) * c**(4 - i) modulo 2**64, mixed, because MinHash wants hashes
    without structure.

    >>> len(shingle_hashes("one two three four five six"))
    2
    """
    hashes = word_hashes(text)
    count = len(hashes) - WORDS + 1
    if count < 1:
        return np.empty(0, dtype=np.uint64)
    total = hashes[:count].copy()
    for place in range(1, WORDS):
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
