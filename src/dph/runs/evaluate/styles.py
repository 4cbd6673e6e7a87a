"""How many ways of answering are in use."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import exp, log

from dph.errors import DataError


def style_shares(styles: Iterable[str]) -> dict[str, float]:
    """The share of each style, by name; empty when there is nothing to count.

    >>> style_shares(["plain", "cte", "plain", "plain"])
    {'cte': 0.25, 'plain': 0.75}
    """
    counts = Counter(styles)
    total = counts.total()
    return {style: counts[style] / total for style in sorted(counts)}


def effective_styles(shares: Mapping[str, float]) -> float:
    """The number of equally used styles that would be as diverse as ``shares``.

    Equation: exp(-sum of p log p), the Hill number of order 1 (Hill 1973, Ecology 54, eq. 4).
    Limits: 1 when one style has all, the number of styles when all have the same.

    Raises:
        DataError: the shares are not fractions that add up to 1.

    >>> round(effective_styles({"a": 0.25, "b": 0.25, "c": 0.5}), 3)
    2.828
    """
    if abs(sum(shares.values()) - 1) > 1e-6 or min(shares.values()) < 0:
        raise DataError(f"shares are fractions that add up to 1, got {dict(shares)}")
    return exp(-sum(share * log(share) for share in shares.values() if share > 0))
