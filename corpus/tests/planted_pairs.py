"""Pairs of texts of a known similarity."""

import numpy as np


def words(rng, count):
    """A text of ``count`` words, all different."""
    return [f"w{value:x}" for value in rng.choice(10**9, size=count, replace=False)]


def pair(rng, count, changed):
    """Two texts of ``count`` words of which ``changed``, at least 5 apart, are others.

    Each of them is in 5 of the count - 4 shingles, so the Jaccard similarity is
    (n - 5 c) / (n + 5 c) with n = count - 4.
    """
    first = words(rng, count)
    places = 4 + 5 * rng.choice((count - 8) // 5, size=changed, replace=False)
    second = list(first)
    for place in places:
        second[place] = f"changed{place}"
    shingles = count - 4
    similarity = (shingles - 5 * changed) / (shingles + 5 * changed)
    return " ".join(first), " ".join(second), similarity


def pairs(seed, number, low, high, lengths=(600, 2400)):
    """``number`` pairs whose similarities lie evenly in [low, high)."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < number:
        count = int(rng.integers(*lengths))
        aim = rng.uniform(low, high)
        changed = round((count - 4) * (1 - aim) / (1 + aim) / 5)
        first, second, similarity = pair(rng, count, changed)
        if low <= similarity < high:
            found.append((first, second, similarity))
    return found
