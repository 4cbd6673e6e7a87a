"""Runs with the initial policy that they began with: what may be compared problem by problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.results.charts.labels import BASE
from dph.results.charts.run_labels import run_labels
from dph.results.figure.run_groups import RunGroup
from dph.runs.evaluate.samples_file import samples_digest
from dph.runs.found_runs import FoundRun
from dph.runs.layout import SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An evaluated initial policy (None: none was found) and the runs that began with it.

    Families of one ``base_name`` are seeds of one thing.
    """

    base: Path | None
    base_name: str
    runs: tuple[Path, ...]

    @property
    def directories(self) -> tuple[Path, ...]:
        """All of them, the initial policy first."""
        return (*([self.base] if self.base is not None else []), *self.runs)


def base_families(groups: Sequence[RunGroup], evaluated: Sequence[FoundRun]) -> list[Family]:
    """Every run of ``groups`` in its family; runs without a base are families of their own.

    Policies that seeds of one method began with are called the same; where that leaves one name, it
    is that of the base model.
    """
    bases: dict[str, Path] = {}
    members: dict[str, list[Path]] = {}
    alone = []
    for run in evaluated:
        if not any(run in group.runs for group in groups):
            continue
        if run.base is None:
            alone.append(Family(base=None, base_name="", runs=(run.path,)))
            continue
        key = _digest(run.base)
        bases.setdefault(key, run.base)
        members.setdefault(key, []).append(run.path)
    names = _names(groups, bases)
    return [
        *(
            Family(base=base, base_name=names[key], runs=tuple(members[key]))
            for key, base in bases.items()
        ),
        *alone,
    ]


def _digest(base: Path) -> str:
    """Equal for copies of one evaluation."""
    return samples_digest(base / SAMPLES) or str(base.resolve())


def _names(groups: Sequence[RunGroup], bases: dict[str, Path]) -> dict[str, str]:
    first = {key: key for key in bases}
    for group in groups:
        keys = [_digest(run.base) for run in group.runs if run.base is not None]
        joined = {first[key] for key in keys}
        if joined:
            one = min(joined, key=list(bases).index)
            first = {key: one if of in joined else of for key, of in first.items()}
    leaders = list(dict.fromkeys(first.values()))
    if len(leaders) == 1:
        return dict.fromkeys(bases, BASE)
    labels = run_labels([bases[key] for key in leaders])
    return {key: labels[str(bases[of])] for key, of in first.items()}
