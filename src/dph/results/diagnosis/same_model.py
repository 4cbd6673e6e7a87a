"""What two draws of the same model would show: the exact null of every count in a diagnosis.

A problem that a model solves with probability p gives Binomial(n, p) right answers of n. Two draws
of that model share p, and p is unknown. Given how many of all answers are right, nothing is unknown
any more: every way of dealing the right ones to the two draws is as likely as any other, whatever p
is. **Source**: Fisher (1935), The Design of Experiments, section 21; the exact conditional test of
two binomials.

Nothing is estimated and no problem lends another its rate, so the test holds for each problem
alone, however few its samples are. Only steps as large as the counts allow can be seen: see
``dph.results.diagnosis.discrete_fdr`` for what is made of that.
"""

from functools import lru_cache
from math import comb

import numpy as np
from jaxtyping import Float, Int

from dph.errors import DataError


@lru_cache(maxsize=4096)
def second_draw(total: int, first: int, second: int) -> Float[np.ndarray, "counts"]:
    """The probabilities of 0, 1 ... ``second`` right answers in the second of two draws.

    Equation: P(j) = C(second, j) C(first, total - j) / C(first + second, total), of draws of
    ``first`` and ``second`` answers of one model that have ``total`` right ones between them.
    Computed as: exact integers, one rounding each.

    Raises:
        DataError: a draw is empty, or ``total`` is not between 0 and all answers.

    >>> second_draw(1, 2, 2)
    array([0.5, 0.5, 0. ])
    """
    weights = _weights(total, first, second)
    whole = sum(weights)
    chances = np.array([weight / whole for weight in weights])
    chances.flags.writeable = False
    return chances


@lru_cache(maxsize=4096)
def falls(total: int, first: int, second: int) -> Float[np.ndarray, "counts"]:
    """The chance of at most 0, 1 ... ``second`` right answers in the second of two draws.

    These are the p-values of a loss, and all that there can be. Exact integers, one rounding each,
    so that equal chances are equal numbers.

    >>> falls(1, 2, 2)
    array([0.5, 1. , 1. ])
    """
    weights = _weights(total, first, second)
    whole, summed = sum(weights), 0
    tails = []
    for weight in weights:
        summed += weight
        tails.append(summed / whole)
    chances = np.array(tails)
    chances.flags.writeable = False
    return chances


def fall_p_values(
    before: Int[np.ndarray, "problems"], first: int, after: Int[np.ndarray, "problems"], second: int
) -> Float[np.ndarray, "problems"]:
    """For each problem the chance that two draws of one model show such a fall, or a larger one.

    ``before`` of ``first`` answers are right, then ``after`` of ``second``. A rise is a fall seen
    from the other side: ``fall_p_values(after, second, before, first)``.

    >>> fall_p_values(np.array([2, 0]), 2, np.array([0, 0]), 2).round(4)
    array([0.1667, 1.    ])
    """
    return np.array(
        [falls(int(b) + int(a), first, second)[int(a)] for b, a in zip(before, after, strict=True)],
        dtype=np.float64,
    )


def _weights(total: int, first: int, second: int) -> list[int]:
    """C(second, j) C(first, total - j) for every j, each from the one before it."""
    if min(first, second) < 1 or not 0 <= total <= first + second:
        raise DataError(
            f"two draws of {first} and {second} answers cannot have {total} right ones between them"
        )
    fewest, most = max(0, total - first), min(total, second)
    weights = [0] * (second + 1)
    weights[fewest] = comb(second, fewest) * comb(first, total - fewest)
    for j in range(fewest, most):
        weights[j + 1] = (
            weights[j] * (second - j) * (total - j) // ((j + 1) * (first - total + j + 1))
        )
    return weights
