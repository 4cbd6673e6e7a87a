"""Runs that are found at places, and the groups that seeds make of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.recipe import STRENGTHS, Recipe
from dph.recipe.keys import refuse_stores
from dph.recipe.section import flat
from dph.results.read.run_results import RunResults
from dph.results.vocabulary import BASE as BASE_LABEL
from dph.results.vocabulary import run_labels
from dph.runs.directory import BASE, EVALUATION, METRICS, SAMPLES, RunDirectory
from dph.runs.evaluate.samples_file import is_foreign


def find_runs(places: Sequence[Path], *, any_recipe: bool = False) -> list[RunResults]:
    """The runs at ``places``; a directory of runs (a quickstart's, say) stands for all of them.

    Answers of another tool are compared with those that are named first. With ``any_recipe`` a run
    whose recipe is not valid is among them without it (``RunResults.unread_recipe``).
    """
    paths = runs_at(places)
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise DataError(f"the run {path} is named twice")
        seen.add(path.resolve())
    found = [RunResults(path) for path in paths]
    found = [run.readable() for run in found] if any_recipe else found
    if len(found) > 1 and found[0].is_foreign:
        found = [replace(run, beside=found[0].path) if run.is_foreign else run for run in found]
    for run in found:
        refuse_stores(run.path)
        run.why_alone  # noqa: B018 - an error in any is raised before all are read
    return found


def runs_at(places: Sequence[Path]) -> list[Path]:
    return [path for place in places for path in _runs_at(place)]


def the_run(place: Path) -> Path:
    """``place``, or the only run in a directory of runs."""
    runs = _runs_at(place)
    if len(runs) > 1:
        raise DataError(f"{place} holds {len(runs)} runs, name one: {', '.join(map(str, runs))}")
    return runs[0]


def _is_run(directory: Path) -> bool:
    """True if a model was trained or evaluated here."""
    return (directory / METRICS).is_file() or (directory / EVALUATION).is_file()


def holds_runs(place: Path) -> bool:
    """True if a directory stands for the runs in it."""
    own = _is_run(place) or (place / SAMPLES).is_file()
    return place.is_dir() and not own and not is_foreign(place)


def _runs_at(place: Path) -> list[Path]:
    if place.is_file():
        return [place.parent if place.name == SAMPLES else place]
    if not place.is_dir():
        raise DataError(f"there is no run directory {place}, and no file of answers")
    if not holds_runs(place):
        return [place]
    # With `dph evaluate --model --out` the directory has such evaluations only.
    models = RunDirectory(place).models
    paths = [*place.iterdir(), *(models.iterdir() if models.is_dir() else ())]
    inside = [path for path in sorted(paths) if path.is_dir() and _is_run(path)]
    if not inside:
        raise DataError(
            f"{place} is not a run and contains none: a run has {METRICS} or {EVALUATION} in it; "
            "it has no file of answers either"
        )
    # The initial policy of the others is found through them.
    return [path for path in inside if path.name != BASE] or inside


# Which runs ``dph compare`` sets side by side, and which of them comes first.


def compared_runs(places: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Evaluated runs at ``places``, the baseline first, and notes of what is not among them.

    The first of several runs is the baseline. One run alone, and the runs of a directory that is
    named first, are compared with the initial policy that they began with, where it was evaluated.
    """
    found = find_runs(places)
    named = {place.resolve() for place in places}
    chosen = [one for one in found if one.path.resolve() in named or one.is_evaluated]
    notes = [one.why_alone for one in found if one not in chosen and one.why_alone]
    if not chosen:
        raise DataError(f"no run was evaluated: {'; '.join(notes)}")
    runs = [one.path for one in chosen]
    if len(places) > 1 and not holds_runs(places[0]):
        return runs, notes
    notes += [one.why_alone for one in chosen if one.why_alone]
    bases = {one.base.identity: one.base.path for one in chosen if one.base is not None}
    if len(bases) > 1:
        raise DataError(
            "the runs began with different initial policies, "
            f"{', '.join(map(str, bases.values()))}: name the run to compare with first"
        )
    base = next(iter(bases.values()), None)
    others = [run for run in runs if base is None or run.resolve() != base.resolve()]
    return (others if base is None else [base, *others]), notes


# Runs that differ only in their seed, as one method.
#
# A seed may have its own directory of data (a quickstart's does), so places count by the last part
# of their path: ``a/base_model`` and ``b/base_model`` are one model here. Two runs of one seed are
# never in one group.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """One run, or the seeds of one; ``name`` stands in tables and legends."""

    name: str
    runs: tuple[RunResults, ...]

    @property
    def recipe(self) -> Recipe | None:
        """The first run's; the others differ in seeds and places."""
        return self.runs[0].recipe

    @property
    def method(self) -> str | None:
        return None if self.recipe is None else self.recipe.method

    @property
    def strength(self) -> float | None:
        return None if self.recipe is None else strength_of(self.recipe)


def strength_of(recipe: Recipe) -> float | None:
    """The value of the setting that says how strong the method is (``dph.recipe.STRENGTHS``)."""
    key = STRENGTHS.get(str(recipe.method))
    value = dict(flat(recipe.model_dump(mode="json"))).get(key) if key is not None else None
    return float(value) if isinstance(value, (int, float)) else None


def group_runs(found: Sequence[RunResults], *, apart: bool = False) -> list[RunGroup]:
    """The runs as methods, in the order in which they come up; ``apart`` keeps each alone."""
    groups: dict[str, list[RunResults]] = {}
    for run in found:
        key = str(run.path) if apart or run.recipe is None else _likeness(run.recipe)
        groups.setdefault(key, []).append(run)
    split: list[list[RunResults]] = []
    for runs in groups.values():
        seeds = {run.recipe.seed if run.recipe is not None else None for run in runs}
        split += [runs] if len(seeds) == len(runs) else [[run] for run in runs]
    names = _names(split)
    return [RunGroup(name=name, runs=tuple(runs)) for name, runs in zip(names, split, strict=True)]


def _likeness(recipe: Recipe) -> str:
    """The settings that two runs differ in unless they are seeds of one method."""
    table = recipe.model_dump(mode="json")
    for key in ("seed", "name", "notes", "track"):
        table.pop(key, None)
    for section in ("presample", "evaluate"):
        table[section].pop("seed", None)
    table["presample"].pop("pool", None)
    return str(_by_last_part(table))


def _by_last_part(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _by_last_part(of_key) for key, of_key in sorted(value.items())}
    if isinstance(value, list):
        return [_by_last_part(one) for one in value]
    return Path(value).name if isinstance(value, str) and "/" in value else value


def _names(groups: Sequence[Sequence[RunResults]]) -> list[str]:
    """The directory's name if all seeds have it, else the method's.

    If two are equal the strength is added, and if they still are, the end of the path is the name.
    """
    names = []
    for runs in groups:
        directories, recipe = {run.path.absolute().name for run in runs}, runs[0].recipe
        method = recipe.method if recipe is not None and len(directories) > 1 else None
        names.append(method or runs[0].path.absolute().name)
    counts = Counter(names)
    for place, (name, runs) in enumerate(zip(list(names), groups, strict=True)):
        strength = None if runs[0].recipe is None else strength_of(runs[0].recipe)
        if counts[name] > 1 and strength is not None:
            names[place] = f"{name}_{strength:g}"
    counts = Counter(names)
    labels = run_labels([runs[0].path for runs in groups])
    return [
        name if counts[name] == 1 else labels[str(runs[0].path)]
        for name, runs in zip(names, groups, strict=True)
    ]


# Runs with the initial policy that they began with: what may be compared problem by problem.


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An evaluated initial policy (None: none was found) and the runs that began with it.

    Families of one ``base_name`` are seeds of one thing.
    """

    base: RunResults | None
    base_name: str
    runs: tuple[RunResults, ...]

    @property
    def all(self) -> tuple[RunResults, ...]:
        return (*([self.base] if self.base is not None else []), *self.runs)


def base_families(groups: Sequence[RunGroup], evaluated: Sequence[RunResults]) -> list[Family]:
    """Every run of ``groups`` in its family; runs without a base are separate families.

    Policies that seeds of one method began with are called the same; where that leaves one name, it
    is that of the base model.
    """
    bases: dict[str, RunResults] = {}
    members: dict[str, list[RunResults]] = {}
    alone = []
    for run in evaluated:
        if not any(run in group.runs for group in groups):
            continue
        if run.base is None:
            alone.append(Family(base=None, base_name="", runs=(run,)))
            continue
        key = run.base.identity
        bases.setdefault(key, run.base)
        members.setdefault(key, []).append(run)
    names = _family_names(groups, bases)
    found = [Family(base=bases[k], base_name=names[k], runs=tuple(members[k])) for k in bases]
    return [*found, *alone]


def _family_names(groups: Sequence[RunGroup], bases: Mapping[str, RunResults]) -> dict[str, str]:
    first = {key: key for key in bases}
    for group in groups:
        keys = [run.base.identity for run in group.runs if run.base is not None]
        if joined := {first[key] for key in keys}:
            one = min(joined, key=list(bases).index)
            first = {key: one if of in joined else of for key, of in first.items()}
    leaders = list(dict.fromkeys(first.values()))
    if len(leaders) == 1:
        return dict.fromkeys(bases, BASE_LABEL)
    labels = run_labels([bases[key].path for key in leaders])
    return {key: labels[str(bases[of].path)] for key, of in first.items()}
