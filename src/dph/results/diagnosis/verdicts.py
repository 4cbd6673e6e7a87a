"""The verdict on every problem of an evaluated run: the same wherever a problem is called lost."""

from collections.abc import Iterable
from pathlib import Path

from dph.results.diagnosis.changes import ProblemChange, problem_changes, smallest_rates
from dph.results.diagnosis.levels import FDR, list_level, question_level
from dph.results.diagnosis.run_files import find_run_files
from dph.runs.evaluate.samples_file import comparable_scores, read_samples
from dph.runs.evaluate.scores import SetScores


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
    files = find_run_files(run, against)
    places = {"run": files.samples, "baseline": files.baseline_samples}
    scores = comparable_scores(
        {label: read_samples(path, texts=False) for label, path in places.items()}
    )
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
