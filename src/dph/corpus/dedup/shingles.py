"""The word 5-grams of a text, as 64-bit hashes."""

import hashlib
import re

import numpy as np
from numpy.typing import NDArray

WORDS = 5
"""In a row, a shingle (BigCode's convention; OpenCoder does not say words or characters)."""

_WORD = re.compile(r"\w+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_MOST_WORDS = 1_000_000


class _WordHashes(dict[str, int]):
    """64 bits of BLAKE2b for each word; those met before are looked up."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MOST_WORDS:
            self.clear()
        value = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
        self[word] = value
        return value


_HASHES = _WordHashes()


def shingle_hashes(text: str) -> NDArray[np.uint64]:
    r"""A hash for each run of 5 words, in order, repeated ones too; empty below 5 words.

    Words are the longest runs of ``\w``, their case counts. Equal shingles have equal hashes;
    different ones do with a probability of about 2**-64 a pair.

    Computed as: sum of h(word_i) * c**(4 - i) modulo 2**64, then the finalizer of SplitMix64
    (Steele, Lea and Flood 2014), because MinHash wants hashes without structure.

    >>> len(shingle_hashes("one two three four five six"))
    2
    """
    words = _WORD.findall(text)
    count = len(words) - WORDS + 1
    if count < 1:
        return np.empty(0, dtype=np.uint64)
    hashes = np.fromiter(map(_HASHES.__getitem__, words), dtype=np.uint64, count=len(words))
    total = hashes[:count].copy()
    for place in range(1, WORDS):
        total *= _FACTOR
        total += hashes[place : place + count]
    total ^= total >> np.uint64(30)
    total *= _MIX[0]
    total ^= total >> np.uint64(27)
    total *= _MIX[1]
    total ^= total >> np.uint64(31)
    return total


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
