"""False discovery rate of tests that can only take few values each.

A test of few samples cannot reach every p-value: a problem with 1 right answer of 32 has p = 0.5 at
the least and can never be named. Procedures for continuous tests (Benjamini and Hochberg 1995)
charge for it all the same. Here every test brings the list of p-values that it can take, and is
charged for what it could have done.

**Source**: Doehler, Durand and Roquain (2018), New FDR bounds for discrete and heterogeneous tests,
Electronic Journal of Statistics 12, the step-down procedure [AHSD]. The false discovery rate is at
most the level for independent tests: problems are drawn independently, given the models. With
continuous tests it is the step-down procedure of Gavrilov, Benjamini and Sarkar (2009).

Heyse's (2011) procedure, which averages the F_i without the denominators below, is simpler and does
not control the rate in general. Step-down is taken because it gives every test a number of its own,
the smallest level at which it is named.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from dph.errors import DataError

_BLOCK = 64
"""P-values at a time: bounds the memory, does not change the result."""


def adjusted_p_values(
    p_values: Float[np.ndarray, "tests"],
    support_of: Int[np.ndarray, "tests"],
    supports: Sequence[Float[np.ndarray, "values"]],
) -> Float[np.ndarray, "tests"]:
    """For each test the smallest false discovery rate at which it would be named, at most 1.

    Equation: with p sorted, F_i(x) = P(p_i <= x) of a test without effect, and g_i = F_i / (1 -
    F_i), q_(k) = max over j <= k of (1 / j) * (sum of the m - j + 1 largest g_i(p_(j))).
    ``supports[support_of[i]]`` are the p-values that test i can take, ascending, with P(p_i <= x) =
    x for each of them. Computed as: once for each p-value that occurs, with equal supports
    together. Limits: a test that cannot reach p costs nothing; one F_i of 1 among those that count
    makes q 1.

    Raises:
        DataError: a test is missing its support, or p-values lie outside [0, 1].

    Of three tests that all can take 1/8 and 1, and of one test that two others cannot disturb:

    >>> two = np.array([0.125, 1.0])
    >>> adjusted_p_values(np.array([0.125, 1.0, 1.0]), np.array([0, 0, 0]), [two]).round(3)
    array([0.429, 1.   , 1.   ])
    >>> one = np.array([1.0])
    >>> adjusted_p_values(np.array([0.125, 1.0, 1.0]), np.array([0, 1, 1]), [two, one]).round(3)
    array([0.143, 1.   , 1.   ])
    """
    if len(p_values) != len(support_of):
        raise DataError(f"{len(p_values)} p-values and {len(support_of)} supports do not fit")
    if len(p_values) and not (p_values.min() >= 0 and p_values.max() <= 1):
        raise DataError("p-values lie in [0, 1]")
    tests = np.bincount(support_of, minlength=len(supports))
    values, first, place = np.unique(np.sort(p_values), return_index=True, return_inverse=True)
    adjusted = np.ones(len(values))
    largest = 0.0
    for start in range(0, len(values), _BLOCK):
        odds = _odds(values[start : start + _BLOCK], supports)
        for at, of_p in enumerate(odds.T, start):
            # Of equal p-values the first decides: later ones are charged for fewer tests.
            before = int(first[at])
            charge = _largest_of(of_p, tests, len(p_values) - before)
            largest = max(largest, charge / (before + 1))
            adjusted[at] = min(1.0, largest)
        if largest >= 1:
            break
    found = np.empty(len(p_values))
    found[np.argsort(p_values, kind="stable")] = adjusted[place]
    return found


def _odds(
    p_values: Float[np.ndarray, "p_values"], supports: Sequence[Float[np.ndarray, "values"]]
) -> Float[np.ndarray, "supports p_values"]:
    """F / (1 - F), infinite where F is 1, with F the largest value of a support up to p."""
    reached = np.stack(
        [
            np.append(0.0, support)[np.searchsorted(support, p_values, side="right")]
            for support in supports
        ]
    )
    odds = np.full(reached.shape, np.inf)
    np.divide(reached, 1 - reached, out=odds, where=reached < 1)
    return odds


def _largest_of(
    odds: Float[np.ndarray, "supports"], tests: Int[np.ndarray, "supports"], counting: int
) -> float:
    """The sum of the ``counting`` largest of the odds, of which ``tests`` have each."""
    order = np.argsort(-odds)
    ends = np.minimum(np.cumsum(tests[order]), counting)
    taken = np.diff(ends, prepend=0)
    counted = taken > 0  # Mask first: inf * 0 is NaN.
    return float((odds[order][counted] * taken[counted]).sum())
