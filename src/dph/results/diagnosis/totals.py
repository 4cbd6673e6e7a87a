"""Counts over a whole set, beside what two draws of the same model would show.

Whether single problems can be named depends on the samples; a set as a whole says more. Given how
many of all answers to a problem are right, the second draw's share of them has a known distribution
(``same_model``), problems are independent, and so the distribution of every sum over problems is
known: it is computed, not simulated.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from dph.results.diagnosis.same_model import second_draw
from dph.runs.evaluate.intervals import LEVEL
from dph.runs.evaluate.scores import SetScores

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
    """Whether the p-value, adjusted for the totals of a set, reaches the level of the diagnosis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of a set: right answers of the run, and problems that only one of the two solves.

    ``solved_before_alone`` are problems that the baseline's samples solve and none of the run's
    does, ``solved_after_alone`` the other way round.
    """

    correct_answers: Total
    solved_before_alone: Total
    solved_after_alone: Total

    @property
    def all(self) -> tuple[Total, Total, Total]:
        """The three of them."""
        return self.correct_answers, self.solved_before_alone, self.solved_after_alone

    @property
    def smallest_rate(self) -> float:
        """The smallest level at which any of them is named."""
        return min(1.0, len(self.all) * min(one.p_value for one in self.all))

    def at(self, level: float) -> "Totals":
        """The same, with those named whose adjusted p-value is at most ``level`` (Bonferroni)."""
        correct, before, after = (
            replace(one, named=len(self.all) * one.p_value <= level) for one in self.all
        )
        return Totals(correct_answers=correct, solved_before_alone=before, solved_after_alone=after)


def set_totals(model: SetScores, baseline: SetScores) -> Totals:
    """The totals of a set, each beside what two draws of one model would show."""
    right = _right_answers(model, baseline)
    return Totals(
        correct_answers=_total(int(model.correct.sum()), right),
        solved_before_alone=_solved_once(baseline, model),
        solved_after_alone=_solved_once(model, baseline),
    )


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


def _right_answers(model: SetScores, baseline: SetScores) -> Float[np.ndarray, "values"]:
    totals = Counter((model.correct_counts + baseline.correct_counts).tolist())
    return sum_of_counts(
        {
            tuple(second_draw(t, baseline.samples, model.samples).tolist()): times
            for t, times in totals.items()
        }
    )


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
