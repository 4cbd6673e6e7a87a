"""Holm's correction of several p-values."""

from collections.abc import Sequence

from dph.errors import DataError


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: reject where one is at most the level.

    Equation: with the p-values in rising order p(1) <= ... <= p(m), the adjusted p(i) is the
    largest of min(1, (m - j + 1) p(j)) over j <= i (Holm 1979, Scandinavian Journal of Statistics
    6, 65-70, the step-down procedure; written as adjusted values by Wright 1992, Biometrics 48).

    Raises:
        DataError: a p-value lies outside [0, 1].

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise DataError(f"a p-value lies in [0, 1], got {p}")
    count, largest = len(p_values), 0.0
    adjusted = [0.0] * count
    for rank, place in enumerate(sorted(range(count), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (count - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
