"""Which runs ``dph compare`` sets side by side, and which of them comes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.errors import DataError
from dph.runs.evaluate.samples_file import samples_digest
from dph.runs.found_runs import FoundRun, find_runs, holds_runs
from dph.runs.layout import SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """Evaluated directories, the baseline first; ``notes`` say what is not among them, and why."""

    runs: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def compared_runs(places: Sequence[Path]) -> ComparedRuns:
    """The runs at ``places`` and what they are compared with.

    The first of several runs is the baseline. One run alone, and the runs of a directory that is
    named first, are compared with the initial policy that they began with, where it was evaluated.

    Raises:
        DataError: there is no run, one is named twice or was named and not evaluated, or the runs
            began with several initial policies.
        SettingsError: a run's recipe is not valid.
    """
    found = find_runs(places)
    named = {place.resolve() for place in places}
    chosen = [one for one in found if one.path.resolve() in named or _evaluated(one)]
    notes = [one.why_alone for one in found if one not in chosen and one.why_alone]
    if not chosen:
        raise DataError(f"no run was evaluated: {'; '.join(notes)}")
    runs = [one.path for one in chosen]
    if len(places) > 1 and not holds_runs(places[0]):
        return ComparedRuns(runs=tuple(runs), notes=tuple(notes))
    notes += [one.why_alone for one in chosen if one.why_alone]
    base = _common_base([one.base for one in chosen if one.base is not None])
    others = [run for run in runs if base is None or run.resolve() != base.resolve()]
    return ComparedRuns(runs=tuple(others if base is None else [base, *others]), notes=tuple(notes))


def _evaluated(run: FoundRun) -> bool:
    return (run.path / SAMPLES).is_file()


def _common_base(bases: Sequence[Path]) -> Path | None:
    """The one initial policy of all runs; copies of one evaluation are the same."""
    different = {samples_digest(base / SAMPLES) or str(base.resolve()): base for base in bases}
    if len(different) > 1:
        raise DataError(
            "the runs began with different initial policies, "
            f"{', '.join(map(str, different.values()))}: name the run to compare with first"
        )
    return next(iter(different.values()), None)
