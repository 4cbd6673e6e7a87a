"""The level of each list of a diagnosis, and with it the verdict on every problem of a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.results.diagnosis.changes import ProblemChange, problem_changes, smallest_rates
from dph.results.read.run_results import RunResults
from dph.runs.evaluate.samples_file import comparable_scores
from dph.runs.evaluate.scores import SetScores

# One level for a whole diagnosis, shared by its questions and its sets.
#
# A diagnosis asks five questions of every set: which problems were lost, which gained, which
# styles died, whether the totals moved, which features the lost have. Each question gets a fifth
# of the level. Within a question a set comes in as its smallest adjusted p-value, which is small
# with a chance of at most itself where nothing happened; sets are selected by Benjamini and
# Hochberg (1995), and of S sets, R of them selected, every list is made at R / S of the
# question's level. So a comparison of a model with itself names anything at all with a chance of
# at most the level, and of the selected sets' lists a false share of at most a fifth of it is
# expected, on average over them.
#
# **Source**: Benjamini and Bogomolov (2014), Selective inference on multiple families of
# hypotheses, Journal of the Royal Statistical Society B 76. One list over all sets would be
# simpler, and wrong to read set by set: a hundred problems found on one set would pay for false
# ones on another.

FDR = 0.05
"""The level of a whole diagnosis unless another is asked for."""
QUESTIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What an adjusted p-value of each question has to reach for something to be named."""

    lost: float
    gained: float
    styles: float
    totals: float
    features: float


def question_level(fdr: float) -> float:
    """What each question gets of the whole.

    >>> question_level(0.05)
    0.01
    """
    return fdr / QUESTIONS


def list_level(smallest: Sequence[float], level: float) -> float:
    """The level of every set's list, from the smallest adjusted p-value of each set.

    Sets that are not selected have nothing at or below it.

    >>> list_level([0.001, 0.5], 0.01), list_level([0.001, 0.009], 0.01), list_level([0.5], 0.01)
    (0.005, 0.01, 0.01)
    """
    ordered = sorted(smallest)
    selected = [rank for rank, p in enumerate(ordered, 1) if p <= level * rank / len(ordered)]
    return level * (selected[-1] if selected else 1) / len(ordered)


# The verdict on every problem of an evaluated run: the same wherever a problem is called lost.


def change_levels(
    pairs: Iterable[tuple[SetScores, SetScores]], level: float
) -> tuple[float, float]:
    """The false discovery rates of the lists of lost and gained problems, of all sets together.

    ``pairs`` are a run and its baseline on each set that both were evaluated on: a level depends
    on how many there are, so that leaving one out would change verdicts on the others.
    """
    rates = [smallest_rates(mine, theirs) for mine, theirs in pairs]
    lost, gained = zip(*rates, strict=True)
    return list_level(lost, level), list_level(gained, level)


def problem_verdicts(
    run: Path, against: Path | None = None, *, fdr: float = FDR
) -> dict[tuple[str, str], ProblemChange]:
    """What became of each problem, by set and id, as ``dph diagnose`` says it.

    Problems that one of the two was not evaluated on, or that cannot be graded, are left out.

    Raises:
        DataError: something was not evaluated, or not on the same problems.
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
    lost, gained = change_levels(pairs.values(), question_level(fdr))
    return {
        (name, change.problem_id): change
        for name, (mine, theirs) in pairs.items()
        for change in problem_changes(mine, theirs, lost_level=lost, gained_level=gained)
    }
