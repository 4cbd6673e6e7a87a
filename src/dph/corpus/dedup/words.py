r"""The words of a text as 64-bit hashes, all at once: a loop over words would be most of the time.

A word is a longest run of word characters (those of ``\w``: letters, digits and the underscore of
any script), its case counts.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BASE = 0xD1342543DE82EF95
_INVERSE = pow(_BASE, -1, 1 << 64)
_CODES, _NOT_ASKED = 0x110000, 2


def word_hashes(text: str) -> NDArray[np.uint64]:
    """A hash for each word of ``text``, in order.

    >>> first, second = word_hashes("one, two")
    >>> bool(first == word_hashes("(one)")[0]), bool(first == second)
    (True, False)
    """
    return words_in(text)[0]


def words_in(text: str) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """A hash for each word of ``text``, and where the word begins.

    Equation: h(c_0 ... c_{n-1}) = mix(n + sum of t(c_i) * b**i modulo 2**64), t a random-looking
    number for each character and b odd.
    Computed as: differences of running sums over the whole text, times b**-start; b has an inverse
    modulo 2**64.
    Accuracy: two words collide with a probability of about 2**-64, unless somebody has built them
    for that (it takes over a thousand letters).
    """
    if text.isascii():
        codes: NDArray[np.uint8] | NDArray[np.uint32] = np.frombuffer(text.encode(), dtype=np.uint8)
    else:
        codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    edges = np.flatnonzero(np.diff(_is_word(codes), prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    powers, inverses = _powers(1 << max(16, len(codes).bit_length()))
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(_numbers(codes) * powers[: len(codes)], out=sums[1:])
    found = (sums[ends] - sums[starts]) * inverses[starts]
    return mixed(found + (ends - starts).astype(np.uint64)), starts


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014), a bijection; in place."""
    values ^= values >> np.uint64(30)
    values *= _MIX[0]
    values ^= values >> np.uint64(27)
    values *= _MIX[1]
    values ^= values >> np.uint64(31)
    return values


def _is_word(codes: NDArray[np.uint8] | NDArray[np.uint32]) -> NDArray[np.bool_]:
    if codes.dtype == np.uint8:
        return _ascii()[0][codes]
    table = _unicode()
    found = table[codes]
    if (found == _NOT_ASKED).any():
        for code in np.unique(codes[found == _NOT_ASKED]).tolist():
            table[code] = _belongs(code)
        found = table[codes]
    return found.astype(np.bool_)


def _numbers(codes: NDArray[np.uint8] | NDArray[np.uint32]) -> NDArray[np.uint64]:
    if codes.dtype == np.uint8:
        return _ascii()[1][codes]
    return mixed((codes.astype(np.uint64) + np.uint64(1)) * _STEP)


@cache
def _ascii() -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Which of the first 256 characters belong to words, and the number of each."""
    words = np.array([_belongs(code) for code in range(256)])
    return words, _numbers(np.arange(256, dtype=np.uint32))


@cache
def _unicode() -> NDArray[np.uint8]:
    """1 or 0 for each character, filled in as they are met: there are over a million."""
    return np.full(_CODES, _NOT_ASKED, dtype=np.uint8)


def _belongs(code: int) -> bool:
    r"""Whether ``\w`` matches a character: what the module re asks, too."""
    return chr(code).isalnum() or chr(code) == "_"


@cache
def _powers(count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """b**i and b**-i for i < count, modulo 2**64."""
    found = []
    for base in (_BASE, _INVERSE):
        factors = np.full(count, base, dtype=np.uint64)
        factors[0] = 1
        found.append(np.multiply.accumulate(factors))
    return found[0], found[1]
