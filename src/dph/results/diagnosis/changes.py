"""Problems lost, kept and gained: a run is right less often than its baseline, or more often.

Each problem is tested by itself against its exact null (``totals``), in one direction for losses
and in the other for gains, and each of the two lists has its own false discovery rate. A list for
both would be filled by the direction with more to show: with a hundred gains found, five false
losses would pass as 5%.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from math import sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError, SettingsError
from dph.results.diagnosis.totals import fall_p_values, falls
from dph.results.read.run_results import RunResults
from dph.runs.evaluate.intervals import LEVEL, Difference
from dph.runs.evaluate.samples_file import comparable_scores
from dph.runs.evaluate.scores import SetScores, require_same_problems

# Intervals of shares and of differences of shares, from counts.
#
# **Source**: Wilson (1927), JASA 22 (score interval of a share); Newcombe (1998), Statistics in
# Medicine 17, 873-890, method 10 (difference of two shares: their score intervals, squared and
# added). Both stay inside what is possible and say something at counts of 0 and n, where the
# usual interval has width 0.


def wilson(hits: int, of: int, *, level: float = LEVEL) -> tuple[float, float]:
    """Score interval of the share ``hits / of``.

    >>> lo, hi = wilson(0, 10)
    >>> round(lo, 4), round(hi, 4)
    (0.0, 0.2775)
    """
    if not 0 <= hits <= of or of < 1:
        raise DataError(f"a share needs 0 <= count <= of and of >= 1, got {hits} of {of}")
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = hits / of
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


# False discovery rate of tests that can only take few values each.
#
# A test of few samples cannot reach every p-value: a problem with 1 right answer of 32 has p =
# 0.5 at the least and can never be named. Procedures for continuous tests (Benjamini and Hochberg
# 1995) charge for it all the same. Here every test brings the list of p-values that it can take,
# and is charged for what it could have done.
#
# **Source**: Doehler, Durand and Roquain (2018), New FDR bounds for discrete and heterogeneous
# tests, Electronic Journal of Statistics 12, the step-down procedure [AHSD]. The false discovery
# rate is at most the level for independent tests: problems are drawn independently, given the
# models. With continuous tests it is the step-down procedure of Gavrilov, Benjamini and Sarkar
# (2009).
#
# Heyse's (2011) procedure, which averages the F_i without the denominators below, is simpler and
# does not control the rate in general. Step-down is taken because it gives every test a number of
# its own, the smallest level at which it is named.

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
        [np.append(0.0, of)[np.searchsorted(of, p_values, side="right")] for of in supports]
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


class Change(StrEnum):
    """Change of a problem. Only the first two are claims that a test stands behind."""

    LOST = "lost"
    """Right less often than two draws of one model would show."""
    GAINED = "gained"
    """Right more often than that."""
    KEPT = "kept"
    """Solved before and after, and no difference was shown."""
    UNDECIDED = "undecided"
    """Solved by one of the two only, as two draws of one model may show as well."""
    UNSOLVED = "unsolved"
    """No right answer from either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemChange:
    """A problem's right answers before and after, and what can be said of the difference.

    ``p_lost`` and ``p_gained`` are the chances that two draws of one model show so large a fall or
    rise; ``q_lost`` and ``q_gained`` the smallest false discovery rate at which the problem is
    named in its list. ``difference`` (after minus before, of the share of right answers) has the
    95% interval of this problem alone, not adjusted for having been picked out of many.
    """

    problem_id: str
    change: Change
    correct: int
    samples: int
    baseline_correct: int
    baseline_samples: int
    difference: Difference
    p_lost: float
    p_gained: float
    q_lost: float
    q_gained: float


def smallest_rates(model: SetScores, baseline: SetScores) -> tuple[float, float]:
    """The smallest false discovery rate at which a problem of the set is lost, and one gained."""
    require_same_problems(model, baseline, name_a="the run", name_b="the baseline")
    after, before = model.correct_counts, baseline.correct_counts
    lost = fallen(before, baseline.samples, after, model.samples)[1]
    gained = fallen(after, model.samples, before, baseline.samples)[1]
    return float(lost.min()), float(gained.min())


def problem_changes(
    model: SetScores, baseline: SetScores, *, lost_level: float, gained_level: float
) -> list[ProblemChange]:
    """Every problem's change, in the order of the set, at each list's false discovery rate."""
    for level in (lost_level, gained_level):
        if not 0 < level < 1:
            raise SettingsError(f"a false discovery rate lies between 0 and 1, got {level}")
    require_same_problems(model, baseline, name_a="the run", name_b="the baseline")
    after, before = model.correct_counts, baseline.correct_counts
    second, first = model.samples, baseline.samples
    p_lost, q_lost = fallen(before, first, after, second)
    p_gained, q_gained = fallen(after, second, before, first)
    return [
        ProblemChange(
            problem_id=problem_id,
            change=_change(
                int(before[i]), int(after[i]), q_lost[i] <= lost_level, q_gained[i] <= gained_level
            ),
            correct=int(after[i]),
            samples=second,
            baseline_correct=int(before[i]),
            baseline_samples=first,
            difference=newcombe(int(after[i]), second, int(before[i]), first),
            p_lost=float(p_lost[i]),
            p_gained=float(p_gained[i]),
            q_lost=float(q_lost[i]),
            q_gained=float(q_gained[i]),
        )
        for i, problem_id in enumerate(model.problem_ids)
    ]


def fallen(
    before: Int[np.ndarray, "problems"], first: int, after: Int[np.ndarray, "problems"], second: int
) -> tuple[Float[np.ndarray, "problems"], Float[np.ndarray, "problems"]]:
    """Each problem's p-value of a fall, and the same adjusted for their number."""
    totals, support_of = np.unique(before + after, return_inverse=True)
    supports = [np.unique(falls(int(total), first, second)) for total in totals]
    p_values = fall_p_values(before, first, after, second)
    return p_values, adjusted_p_values(p_values, support_of, supports)


def could_be_lost(
    changes: Sequence[ProblemChange], *, level: float
) -> Bool[np.ndarray, "problems"]:
    """Problems that the baseline solved often enough that a loss would show, and the lost.

    Often enough: one more problem that it solved as often and the run not once would be lost, too.
    The others say nothing about what losses have in common. All False when nothing is lost.
    """
    lost = np.array([one.change is Change.LOST for one in changes])
    if not lost.any():
        return lost
    before = np.array([one.baseline_correct for one in changes])
    after = np.array([one.correct for one in changes])
    first, second = changes[0].baseline_samples, changes[0].samples

    def would_be(solved: int) -> bool:
        with_one_more = fallen(np.append(before, solved), first, np.append(after, 0), second)[1]
        return bool(with_one_more[-1] <= level)

    often_enough = bisect_left(range(first + 1), True, key=would_be)
    return np.asarray(lost | (before >= often_enough))


def unnamed_fall(
    changes: Sequence[ProblemChange], *, level: float
) -> tuple[ProblemChange, int] | None:
    """A fall to nothing that is not named because of the number of answers, where none is lost.

    It is the clearest from at least half of the baseline's answers; with it comes how many times
    as many answers, in the same shares, would name it.
    """
    solved_before = (one for one in changes if 2 * one.baseline_correct >= one.baseline_samples)
    falls_to_0 = [one for one in solved_before if not one.correct]
    if not falls_to_0 or any(one.change is Change.LOST for one in changes):
        return None
    clearest = min(falls_to_0, key=lambda one: one.p_lost)
    before = np.array([one.baseline_correct for one in changes])
    after = np.array([one.correct for one in changes])
    first, second, place = clearest.baseline_samples, clearest.samples, changes.index(clearest)
    times = next(
        times
        for times in count(2)
        if fallen(times * before, times * first, times * after, times * second)[1][place] <= level
    )
    return clearest, times


def _change(before: int, after: int, lost: bool, gained: bool) -> Change:
    if lost:
        return Change.LOST
    if gained:
        return Change.GAINED
    if before and after:
        return Change.KEPT
    return Change.UNDECIDED if before or after else Change.UNSOLVED


# One level for a whole diagnosis, shared by its questions and its sets.
#
# A diagnosis asks five questions of every set: which problems were lost, which gained, which
# styles died, whether the totals moved, which features the lost have. Each question gets a fifth
# of the level. Within a question a set counts by its smallest adjusted p-value; sets are selected
# by Benjamini and Hochberg (1995), and of S sets, R of them selected, every list is made at R / S
# of the question's level. So a comparison of a model with itself names anything at all with a
# chance of at most the level, and the expected false share of the selected sets' lists is at most a
# fifth of it, on average over them.
#
# **Source**: Benjamini and Bogomolov (2014), Selective inference on multiple families of
# hypotheses, Journal of the Royal Statistical Society B 76. One list over all sets would be
# simpler, and wrong to read set by set: a hundred problems found on one set would pay for false
# ones on another.

FDR = 0.05
"""Level of a whole diagnosis."""
QUESTIONS = 5
"""Each has an equal share of the level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Levels that an adjusted p-value of each question must reach for something to be named."""

    lost: float
    gained: float
    styles: float
    totals: float
    features: float


def list_level(smallest: Sequence[float], level: float) -> float:
    """The level of every set's list, from the smallest adjusted p-value of each set.

    Sets that are not selected have nothing at or below it.

    >>> list_level([0.001, 0.5], 0.01), list_level([0.001, 0.009], 0.01), list_level([0.5], 0.01)
    (0.005, 0.01, 0.01)
    """
    ordered = sorted(smallest)
    selected = [rank for rank, p in enumerate(ordered, 1) if p <= level * rank / len(ordered)]
    return level * (selected[-1] if selected else 1) / len(ordered)


def problem_verdicts(
    run: Path, against: Path | None = None, *, fdr: float = FDR
) -> dict[tuple[str, str], ProblemChange]:
    """Change of each problem, by set and id, as ``dph diagnose`` says it.

    Problems that one of the two was not evaluated on, or that cannot be graded, are left out.
    """
    results = RunResults(run)
    sides = {"run": results, "baseline": results.baseline(against)}
    scores = comparable_scores({name: of.answers(texts=False) for name, of in sides.items()})
    pairs = {
        name: (mine, scores["baseline"][name])
        for name, mine in scores["run"].items()
        if name in scores["baseline"]
    }
    if not pairs:
        return {}
    # All sets together: leaving one out would change verdicts on the others.
    rates = zip(*(smallest_rates(*pair) for pair in pairs.values()), strict=True)
    lost, gained = (list_level(of, fdr / QUESTIONS) for of in rates)
    return {
        (name, change.problem_id): change
        for name, (mine, theirs) in pairs.items()
        for change in problem_changes(mine, theirs, lost_level=lost, gained_level=gained)
    }
