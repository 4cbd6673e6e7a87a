"""Counts over a whole set, next to those of two draws of the same model.

Whether single problems can be named depends on the samples; a set as a whole says more. Given how
many of all answers to a problem are right, the second draw's share of them has a known distribution
(``same_model``), problems are independent, and so the distribution of every sum over problems is
known: it is computed, not simulated.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from math import comb

import numpy as np
from jaxtyping import Float, Int

from dph.errors import DataError
from dph.runs.evaluate.intervals import LEVEL
from dph.runs.evaluate.scores import SetScores

# What two draws of the same model would show: the exact null of every count in a diagnosis.
#
# A problem that a model solves with probability p gives Binomial(n, p) right answers of n. Two
# draws of that model share p, and p is unknown. Given how many of all answers are right, nothing
# is unknown any more: every way of dealing the right ones to the two draws is as likely as any
# other, whatever p is. **Source**: Fisher (1935), The Design of Experiments, section 21; the
# exact conditional test of two binomials.
#
# Nothing is estimated and no problem lends another its rate, so the test holds for each problem
# alone, however few its samples are. Only steps as large as the counts allow can be seen: see
# ``dph.results.diagnosis.changes`` for what is made of that.


@lru_cache(maxsize=4096)
def second_draw(total: int, first: int, second: int) -> Float[np.ndarray, "counts"]:
    """The probabilities of 0, 1 ... ``second`` right answers in the second of two draws.

    Equation: P(j) = C(second, j) C(first, total - j) / C(first + second, total), of draws of
    ``first`` and ``second`` answers of one model that have ``total`` right ones between them.
    Computed as: exact integers, one rounding each.

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
    summed = [*accumulate(_weights(total, first, second))]
    chances = np.array([weight / summed[-1] for weight in summed])
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


Chances = tuple[float, ...]
"""The probabilities of 0, 1, 2 ... of something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A count, and what it would be of two draws of one model.

    ``lo`` and ``hi`` hold 95% of what they would show; ``p_value`` is two-sided: twice the smaller
    chance of a count so far from ``expected`` or farther.
    """

    observed: int
    expected: float
    lo: int
    hi: int
    p_value: float
    named: bool = False
    """True if the p-value, adjusted for the totals of a set, reaches the level of the diagnosis."""


Totals = Mapping[str, Total]
"""``correct_answers`` of the run, ``solved_before_alone`` and ``solved_after_alone``: problems that
only the baseline's samples solve, and only the run's."""


def set_totals(model: SetScores, baseline: SetScores) -> Totals:
    """The totals of a set, each next to those of two draws of one model."""
    totals = Counter((model.correct_counts + baseline.correct_counts).tolist())
    chances = {
        tuple(second_draw(t, baseline.samples, model.samples).tolist()): times
        for t, times in totals.items()
    }
    return {
        "correct_answers": _total(int(model.correct.sum()), sum_of_counts(chances)),
        "solved_before_alone": _solved_once(baseline, model),
        "solved_after_alone": _solved_once(model, baseline),
    }


def smallest_total_rate(totals: Totals) -> float:
    """The smallest level at which any of them is named (Bonferroni)."""
    return min(1.0, len(totals) * min(one.p_value for one in totals.values()))


def named_totals(totals: Totals, level: float) -> Totals:
    """The same, with those named whose adjusted p-value is at most ``level``."""
    return {
        name: replace(one, named=len(totals) * one.p_value <= level) for name, one in totals.items()
    }


def fall_of_sum(
    before: Int[np.ndarray, "problems"], after: Int[np.ndarray, "problems"], samples: int
) -> float:
    """The chance that two draws of one model show as small a sum of ``after``, or a smaller one.

    ``before[i]`` and ``after[i]`` count the same thing among ``samples`` answers to problem i each:
    right answers, or answers of a style.
    """
    totals = Counter((before + after).tolist())
    chances = {tuple(second_draw(t, samples, samples).tolist()): n for t, n in totals.items()}
    return float(min(1.0, sum_of_counts(chances)[: int(after.sum()) + 1].sum()))


def sum_of_counts(counts: Mapping[Chances, int]) -> Float[np.ndarray, "values"]:
    """The distribution of a sum of independent counts, ``counts[chances]`` of which have these.

    Computed as: the product of their discrete Fourier transforms (Hong 2013, Computational
    Statistics and Data Analysis 59). Accuracy: 1e-12 absolute
    (tests/results/diagnosis/test_totals.py), so a chance below that is not told from 0.

    >>> sum_of_counts({(0.5, 0.5): 2}).round(3)
    array([0.25, 0.5 , 0.25])
    """
    length = 1 + sum((len(chances) - 1) * times for chances, times in counts.items())
    padded = 1 << length.bit_length()  # a power of two is fast; what it adds is 0
    transformed = np.ones(padded // 2 + 1, dtype=np.complex128)
    for chances, times in counts.items():
        transformed *= np.fft.rfft(np.array(chances), padded) ** times
    return np.asarray(np.maximum(np.fft.irfft(transformed, padded)[:length], 0.0))


def _solved_once(solver: SetScores, other: SetScores) -> Total:
    mine, theirs = solver.correct_counts, other.correct_counts
    chances: Counter[Chances] = Counter()
    for total, times in Counter((mine + theirs).tolist()).items():
        none = float(second_draw(total, solver.samples, other.samples)[0]) if total else 0.0
        chances[(1 - none, none)] += times
    return _total(int(((mine > 0) & (theirs == 0)).sum()), sum_of_counts(chances))


def _total(observed: int, chances: Float[np.ndarray, "values"]) -> Total:
    below = np.minimum(np.cumsum(chances), 1.0)
    at_most = float(below[observed])
    at_least = float(min(1.0, chances[observed:].sum()))
    return Total(
        observed=observed,
        expected=float(np.arange(len(chances)) @ chances),
        lo=int(np.searchsorted(below, (1 - LEVEL) / 2)),
        hi=int(np.searchsorted(below, (1 + LEVEL) / 2)),
        p_value=min(1.0, 2 * min(at_most, at_least)),
    )
