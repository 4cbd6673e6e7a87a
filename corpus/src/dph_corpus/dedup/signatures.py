"""MinHash signatures of texts, cut into bands of which 64 bits each are kept.

The hashing is rensa's (Rust): at 2,048 hashes several times as fast as the next implementation
(lab/benchmarks/corpus_peers.py). Its estimates follow the binomial law that the bands assume
(corpus/tests/dedup/test_signatures.py).
"""

import hashlib
import re
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from dph_corpus.settings import Nearness

# The words of a text as 64-bit hashes, all at once: a loop over words would be most of the time.
#
# A word is a longest run of word characters (those of ``\w``: letters, digits and the underscore
# of any script), its case counts. A letter of a script without blanks between words is a word.

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BASE = 0xD1342543DE82EF95
_INVERSE = pow(_BASE, -1, 1 << 64)
_CODES, _NOT_ASKED, _ALONE = 0x110000, 2, 3

WITHOUT_BLANKS = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f"
    "\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9d\U0001b000-\U0001b16f"
    "\U00020000-\U000323af]"
)
"""Thai, Lao, Tibetan; Burmese; Khmer; Tai scripts; Balinese; kana, bopomofo and Han; Javanese;
halfwidth kana; rare kana and Han. Korean has blanks between words."""


def word_hashes(text: str) -> NDArray[np.uint64]:
    """A hash for each word of ``text``, in order.

    >>> first, second = word_hashes("one, two")
    >>> bool(first == word_hashes("(one)")[0]), bool(first == second)
    (True, False)
    """
    return words_in(text)[0]


def words_in(
    text: str, *, apart: bool = True
) -> tuple[NDArray[np.uint64], NDArray[np.intp], NDArray[np.intp]]:
    """A hash for each word of ``text``, and where the word begins and ends.

    Letters of scripts without blanks are words unless they are not to be taken ``apart``.

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
    kinds = _kinds(codes)
    if apart and kinds.dtype != np.bool_ and (kinds == _ALONE).any():
        word, alone = np.pad(kinds != 0, 1), np.pad(kinds == _ALONE, 1)
        cut = (word[1:] != word[:-1]) | alone[1:] | alone[:-1]  # before each character, and last
        starts = np.flatnonzero(cut[:-1] & word[1:-1])
        ends = np.flatnonzero(cut[1:] & word[1:-1]) + 1
    else:
        edges = np.flatnonzero(np.diff(kinds != 0, prepend=False, append=False))
        starts, ends = edges[::2], edges[1::2]
    powers, inverses = _powers(1 << max(16, len(codes).bit_length()))
    sums = np.zeros(len(codes) + 1, dtype=np.uint64)
    np.cumsum(_numbers(codes) * powers[: len(codes)], out=sums[1:])
    found = (sums[ends] - sums[starts]) * inverses[starts]
    return mixed(found + (ends - starts).astype(np.uint64)), starts, ends


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014), a bijection; in place."""
    values ^= values >> np.uint64(30)
    values *= _MIX[0]
    values ^= values >> np.uint64(27)
    values *= _MIX[1]
    values ^= values >> np.uint64(31)
    return values


def _kinds(codes: NDArray[Any]) -> Any:
    """0 or False for a character that belongs to no word; ``_ALONE`` for one that is a word."""
    if codes.dtype == np.uint8:
        return _ascii()[0][codes]
    table = _unicode()
    found = table[codes]
    if (found == _NOT_ASKED).any():
        for code in np.unique(codes[found == _NOT_ASKED]).tolist():
            table[code] = _belongs(code) * (_ALONE if WITHOUT_BLANKS.match(chr(code)) else 1)
        found = table[codes]
    return found


def _numbers(codes: NDArray[np.uint8] | NDArray[np.uint32]) -> NDArray[np.uint64]:
    if codes.dtype == np.uint8:
        return _ascii()[1][codes]
    return mixed((codes.astype(np.uint64) + np.uint64(1)) * _STEP)


@cache
def _ascii() -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Mask of the first 256 characters that belong to words, and the number of each."""
    words = np.array([_belongs(code) for code in range(256)])
    return words, _numbers(np.arange(256, dtype=np.uint32))


@cache
def _unicode() -> NDArray[np.uint8]:
    """Kind of each character, filled in as they are met: there are over a million."""
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


# The word 5-grams of a text, as 64-bit hashes.

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
    return hashes_of_runs(word_hashes(text), length)


def shingle_hashes_of(
    texts: Sequence[str], length: int = WORDS
) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """``shingle_hashes`` of several texts, one after the other, and how many each of them has.

    Computed as: of the texts joined, without the runs that would go from one into the next. Small
    files come several times as cheap as one by one.
    """
    hashes, starts, _ = words_in("\n".join(texts))
    text_starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
    bounds = np.searchsorted(starts, text_starts)
    counts = np.maximum(np.diff(bounds) - length + 1, 0)
    runs = hashes_of_runs(hashes, length)
    within = np.ones(len(runs), dtype=np.bool_)
    for before in range(1, length):
        places = bounds[1:] - before
        within[places[(places >= 0) & (places < len(runs))]] = False
    return runs[within], counts


def hashes_of_runs(hashes: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """A hash for each run of ``length`` words, of those of the words."""
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


BAND_BYTES = 8


def band_digests(texts: Sequence[str], nearness: Nearness) -> list[bytes]:
    """For each text the digests of its bands, one after the other; b'' below 5 words.

    Digests of different bands agree with a probability of 2**-64 a pair.
    """
    found = [b""] * len(texts)
    if not nearness.bands:
        return found
    for alike in (True, False):  # a text that is not ASCII would slow those beside it down
        chosen = [place for place, text in enumerate(texts) if text.isascii() is alike]
        hashes, counts = shingle_hashes_of([texts[place] for place in chosen])
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
        signatures = RMinHash.digest_matrix_from_flat_token_hashes(
            hashes, ends, nearness.hashes, nearness.seed
        ).to_rows()
        for place, row, count in zip(chosen, signatures, counts, strict=True):
            if count:
                found[place] = _bands(row, nearness)
    return found


def algorithm_version() -> int:
    """Version of the signatures that rensa makes: others must not be compared with these."""
    return int(RMinHash.ALGORITHM_VERSION)


def _bands(row: Sequence[int], nearness: Nearness) -> bytes:
    data = memoryview(array("I", row).tobytes())
    size = 4 * nearness.rows
    return b"".join(
        hashlib.blake2b(data[start : start + size], digest_size=BAND_BYTES).digest()
        for start in range(0, size * nearness.bands, size)
    )
