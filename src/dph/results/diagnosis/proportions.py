"""Intervals of shares and of differences of shares, from counts.

**Source**: Wilson (1927), JASA 22 (score interval of a share); Newcombe (1998), Statistics in
Medicine 17, 873-890, method 10 (difference of two shares: their score intervals, squared and
added). Both stay inside what is possible and say something at counts of 0 and n, where the usual
interval has width 0.
"""

from math import sqrt
from statistics import NormalDist

from dph.errors import DataError
from dph.runs.evaluate.intervals import LEVEL, Difference


def wilson(count: int, of: int, *, level: float = LEVEL) -> tuple[float, float]:
    """Score interval of the share ``count / of``.

    Raises:
        DataError: not 0 <= count <= of, or ``of`` is 0.

    >>> lo, hi = wilson(0, 10)
    >>> round(lo, 4), round(hi, 4)
    (0.0, 0.2775)
    """
    if not 0 <= count <= of or of < 1:
        raise DataError(f"a share needs 0 <= count <= of and of >= 1, got {count} of {of}")
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = count / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def newcombe(after: int, second: int, before: int, first: int) -> Difference:
    """``after / second - before / first`` with its 95% interval; the two are independent.

    Newcombe's example: 56 of 70 minus 48 of 80.

    >>> found = newcombe(56, 70, 48, 80)
    >>> round(found.mean, 4), round(found.lo, 4), round(found.hi, 4)
    (0.2, 0.0524, 0.3339)
    """
    a, b = after / second, before / first
    (a_lo, a_hi), (b_lo, b_hi) = wilson(after, second), wilson(before, first)
    return Difference(
        mean=a - b,
        lo=a - b - sqrt((a - a_lo) ** 2 + (b_hi - b) ** 2),
        hi=a - b + sqrt((a_hi - a) ** 2 + (b - b_lo) ** 2),
    )
