"""The problems of evaluated runs that ``dph show`` shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.results.diagnosis.changes import Change, problem_verdicts
from dph.results.read.run_results import RunResults
from dph.runs.directory import RunDirectory
from dph.runs.evaluate.evaluated_runs import (
    CorrectCount,
    Key,
    ShownProblem,
    counted,
    require_problem,
    shown_problems,
    with_outcome,
)
from dph.runs.evaluate.scores import read_kept_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemChoice:
    """Choice of problems; an option that is not given does not choose.

    Raises:
        SettingsError: lost and gained ones are asked for at once.
    """

    lost: bool = False
    gained: bool = False
    problems: tuple[str, ...] = ()
    outcome: Outcome | None = None
    set_name: str | None = None

    def __post_init__(self) -> None:
        if self.lost and self.gained:
            raise SettingsError("no problem is both lost and gained: give --lost or --gained")

    @property
    def change(self) -> Change | None:
        """The change against the base that was asked for."""
        return Change.LOST if self.lost else Change.GAINED if self.gained else None

    @property
    def text(self) -> str:
        """The choice in words, for people."""
        said = {
            Change.LOST: "lost (right less often than two draws of one model would show)",
            Change.GAINED: "gained (right more often than two draws of one model would show)",
        }.get(self.change or Change.KEPT, "problems")
        outcome = f", with answers that are {self.outcome.value}" if self.outcome else ""
        place = f", in {self.set_name}" if self.set_name else ""
        return f"{said}{outcome}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The first problems of the ``of`` that fit a choice."""

    problems: Sequence[ShownProblem]
    of: int


def chosen_problems(runs: Sequence[Path], choice: ProblemChoice, *, limit: int) -> Found:
    """The problems of the first run that fit ``choice``, with the answers of all ``runs``.

    Lost and gained are those that ``dph diagnose`` says of the first run against the policy that
    it began with, the clearest first; no other choice changes which they are.

    Raises:
        DataError: a run or the base was not evaluated, or there is no such problem or set.
    """
    tables = [RunResults(run).answers() for run in runs]
    scores = counted(tables[0])
    base = _base(runs[0], required=choice.change is not None)
    keys = _of_set(list(scores), choice.set_name)
    if choice.problems:
        keys = [key for name in choice.problems for key in require_problem(name, keys)]
    if choice.change is not None:
        keys = _changed(runs[0], choice.change, keys)
    if choice.outcome is not None:
        having = with_outcome(tables, choice.outcome)
        keys = [key for key in keys if key in having]
    some = keys[:limit]
    problems = _problems(runs, some)
    return Found(
        problems=shown_problems(some, tables, problems, base=base, outcome=choice.outcome),
        of=len(keys),
    )


def _changed(run: Path, change: Change, keys: Sequence[Key]) -> list[Key]:
    verdicts = problem_verdicts(run)
    found = [key for key in keys if key in verdicts and verdicts[key].change is change]
    return sorted(found, key=lambda key: min(verdicts[key].p_lost, verdicts[key].p_gained))


def _base(run: Path, *, required: bool) -> Mapping[Key, CorrectCount]:
    base = RunResults(run).initial
    if base.results is None and not required:
        return {}
    return counted(base.required().answers())


def _of_set(keys: Sequence[Key], name: str | None) -> list[Key]:
    found = [key for key in keys if name in (None, key[0])]
    if not found:
        sets = ", ".join(dict.fromkeys(key[0] for key in keys))
        raise DataError(f"there is no set {name!r}; the evaluated sets are {sets}")
    return found


def _problems(runs: Sequence[Path], keys: Sequence[Key]) -> Mapping[Key, Problem]:
    """From beside the samples of the first run that has all; none where no run does."""
    kept = (read_kept_problems(RunDirectory(run).problems) for run in runs)
    return next((found for found in kept if all(key in found for key in keys)), {})
