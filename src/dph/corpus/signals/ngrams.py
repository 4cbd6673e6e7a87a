"""Repeated word n-grams, by integers: every n-gram gets a number, exactly, without hashing.

An n-gram that occurs twice begins with an (n-1)-gram that does and is followed by another. So each
length is worked out only at the places that the one before left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Integers = NDArray[np.int64]

TOP = (2, 3, 4)
"""Lengths of which the commonest n-gram is weighed."""
DUPLICATED = (5, 6, 7, 8, 9, 10)
"""Lengths of which all repeated n-grams are weighed."""


@dataclass(frozen=True, slots=True)
class NGramShares:
    """Shares of the characters of all words, by length of n-gram."""

    top: dict[int, float]
    """Characters of the commonest n-gram times its count; 0 if none occurs twice. Overlaps count
    more than once, so it may pass 1. Among equally common ones the first seen is taken."""
    duplicated: dict[int, float]
    """Characters of words that an n-gram covers which occurs twice or more, each counted once."""


def ngram_shares(words: Sequence[str]) -> NGramShares:
    """Weigh the repeated n-grams of ``words``.

    >>> shares = ngram_shares("a bb a bb c".split())
    >>> round(shares.top[2] * 7), shares.duplicated[5]
    (6, 0.0)
    """
    top, duplicated = dict.fromkeys(TOP, 0.0), dict.fromkeys(DUPLICATED, 0.0)
    if not words:
        return NGramShares(top, duplicated)
    numbers = {word: index for index, word in enumerate(dict.fromkeys(words))}
    ids = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    total = int(lengths.sum())
    # ids[p] of the places p whose (n-1)-gram is repeated; all places for n = 2.
    places, names = np.arange(len(ids)), ids
    for n in range(2, DUPLICATED[-1] + 1):
        places, names, counts, first = _longer(places, names, ids, n)
        if not len(places):
            break
        if n in top:
            start = places[first[counts == counts.max()].min()]
            top[n] = int(lengths[start : start + n].sum()) * int(counts.max()) / total
        else:
            duplicated[n] = int(lengths[_covered(places, n, len(ids))].sum()) / total
    return NGramShares(top, duplicated)


def _longer(
    places: _Integers, names: _Integers, ids: _Integers, n: int
) -> tuple[_Integers, _Integers, _Integers, _Integers]:
    """The repeated n-grams, from the repeated (n-1)-grams at ``places``.

    Returns:
        Where they begin, in order; a number for each, equal where the n-grams are; and for each
        number how often it occurs and the index of its first place.
    """
    fits = places + n <= len(ids)
    places, names = places[fits], names[fits]
    keys = names * (int(ids.max()) + 1) + ids[places + n - 1]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if not len(order):
        return places, names, starts, starts
    counts = np.diff(np.append(starts, len(order)))
    repeated = counts > 1
    new_names = np.where(repeated, np.cumsum(repeated) - 1, -1)
    names = np.empty(len(order), np.int64)
    names[order] = np.repeat(new_names, counts)
    kept = names >= 0
    first = (np.cumsum(kept) - 1)[order[starts[repeated]]]
    return places[kept], names[kept], counts[repeated], first


def _covered(places: _Integers, n: int, length: int) -> NDArray[np.bool_]:
    """Which words lie in an n-gram that begins at one of ``places``."""
    steps = np.zeros(length + 1, np.int64)
    steps[places] += 1
    np.subtract.at(steps, places + n, 1)
    covered: NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
    return covered
