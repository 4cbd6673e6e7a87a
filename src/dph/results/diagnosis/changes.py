"""Problems lost, kept and gained: what a run answers right less or more often than its baseline.

Each problem is tested alone against its exact null (``same_model``), in one direction for losses
and in the other for gains; each of the two lists has its own false discovery rate
(``discrete_fdr``). A list for both would be filled by the direction that has more to show: with a
hundred gains found, five false losses would pass as 5%.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import SettingsError
from dph.results.diagnosis.discrete_fdr import adjusted_p_values
from dph.results.diagnosis.proportions import newcombe
from dph.results.diagnosis.same_model import fall_p_values, falls
from dph.runs.evaluate.intervals import Difference
from dph.runs.evaluate.scores import SetScores, require_same_problems


class Change(StrEnum):
    """What became of a problem. Only the first two are claims that a test stands behind."""

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
    """The smallest false discovery rate at which a problem of the set is lost, and one gained.

    Raises:
        DataError: the two were scored on different problems.
    """
    require_same_problems(model, baseline, name_a="the run", name_b="the baseline")
    after, before = model.correct_counts, baseline.correct_counts
    lost = fallen(before, baseline.samples, after, model.samples)[1]
    gained = fallen(after, model.samples, before, baseline.samples)[1]
    return float(lost.min()), float(gained.min())


def problem_changes(
    model: SetScores, baseline: SetScores, *, lost_level: float, gained_level: float
) -> list[ProblemChange]:
    """Every problem's change, in the order of the set, at each list's false discovery rate.

    Raises:
        DataError: the two were scored on different problems.
        SettingsError: a level is not between 0 and 1.
    """
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
    """Which problems the baseline solved often enough that a loss would show, and the lost.

    Often enough: one more problem that it solved as often and the run not once would be lost, too.
    The others say nothing about where losses lie. All False when nothing is lost.
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


def _change(before: int, after: int, lost: bool, gained: bool) -> Change:
    if lost:
        return Change.LOST
    if gained:
        return Change.GAINED
    if before and after:
        return Change.KEPT
    return Change.UNDECIDED if before or after else Change.UNSOLVED
