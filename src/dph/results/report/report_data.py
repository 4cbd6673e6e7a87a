"""All that a report shows, read from run directories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.errors import DataError, SettingsError
from dph.recipe import Recipe
from dph.records import Problem
from dph.results.diagnosis.run_diagnosis import diagnose, diagnosis_document
from dph.results.over_seeds import mean_over_seeds
from dph.results.read.found_runs import find_runs, group_runs
from dph.results.read.run_results import RunResults, Tokens, read_set_problems
from dph.results.vocabulary import (
    BASE,
    Look,
    looks_by_method,
    method_label,
    run_labels,
    shown_ks,
    unique_labels,
)
from dph.runs.evaluate.comparison import ComparisonRow, compare
from dph.runs.evaluate.evaluated_runs import pass_at_k_band
from dph.runs.evaluate.intervals import Band, Difference
from dph.runs.evaluate.samples_file import comparable_scores
from dph.runs.evaluate.scores import SetScores


def compare_sets(
    scores: Mapping[str, Mapping[str, SetScores]], *, seed: int
) -> dict[str, list[ComparisonRow]]:
    """Greedy, mean and Pass@k of the runs on each set, against the first run that has the set."""
    found = {}
    for name in dict.fromkeys(name for of_run in scores.values() for name in of_run):
        runs = {run: {name: sets[name]} for run, sets in scores.items() if name in sets}
        fewest = min(sets[name].samples for sets in runs.values())
        found[name] = compare(runs, None, shown_ks(fewest), seed)
    return found


def against_baselines(
    runs: Sequence["ReportRun"], comparison: Mapping[str, Sequence[ComparisonRow]], *, seed: int
) -> tuple[dict[str, list[ComparisonRow]], dict[str, dict[str, Band]]]:
    """By run, its rows against its initial policy, and by set the band of their Pass@k.

    Without an initial policy they are against the table's first run.
    """
    scores = {run.key: run.scores for run in runs}
    found, bands = {}, {}
    for run in runs:
        first = {name: comparison[name][0].run for name in run.scores}
        rows = comparison
        if run.baseline is not None and set(first.values()) != {run.baseline}:
            rows = compare_sets({key: scores[key] for key in (run.baseline, run.key)}, seed=seed)
        found[run.key] = [row for of_set in rows.values() for row in of_set if row.run == run.key]
        against = {name: run.baseline or first[name] for name in run.scores if not run.is_base}
        bands[run.key] = {
            name: pass_at_k_band(run.scores[name], scores[other][name], seed)
            for name, other in against.items()
            if other != run.key and name in scores[other]
        }
    return found, bands


def run_diagnoses(
    found: Sequence[RunResults], keys: Mapping[Path, str]
) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The documents of ``dph diagnose`` by the run's key, and why others have none."""
    documents: dict[str, Mapping[str, Any]] = {}
    notes = []
    for run in found:
        if run.base is None or run.path not in keys:
            continue
        try:
            documents[keys[run.path]] = diagnosis_document(diagnose(run.path, run.base.path))
        except DataError as error:  # the rest of the report is of use without it
            notes.append(f"no diagnosis of {run.path}: {error}")
    return documents, notes


def changes_of(document: Mapping[str, Any] | None, set_name: str) -> dict[str, str]:
    """Change of each problem of a set (lost, gained, kept ...), by its id."""
    if document is None or set_name not in document["sets"]:
        return {}
    problems = document["sets"][set_name]["problems"]
    return {problem["problem_id"]: problem["change"] for problem in problems}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportRun:
    """A run or an initial policy, as the page shows it.

    ``key`` names it in the page (``r0``, ``r1`` ...), ``label`` for people, ``baseline`` is the key
    of the initial policy that it is compared with (None: it is one, or none was found). ``log``
    has the steps of training.
    """

    key: str
    label: str
    results: RunResults
    is_base: bool
    look: Look
    baseline: str | None
    samples: pa.Table | None
    scores: Mapping[str, SetScores]
    log: Sequence[Mapping[str, Any]]
    tokens: Tokens

    @property
    def path(self) -> Path:
        return self.results.path

    @property
    def recipe(self) -> Recipe | None:
        return None if self.is_base else self.results.recipe

    @property
    def evaluation(self) -> Mapping[str, Any] | None:
        return self.results.evaluation

    def with_logs(self) -> "ReportRun":
        return self if self.is_base else replace(self, log=self.results.log_from_start())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportData:
    """Runs (initial policies first), their problems, and what was computed of them.

    ``comparison`` has the rows of a set against the first run that has it; ``against_own`` those of
    a run against its own initial policy, by key, and ``bands`` the band of that difference at all
    k, by key and set. ``diagnoses`` holds the document of ``dph diagnose`` for each run that has a
    baseline, by key; ``groups`` the runs that differ in their seed only; ``notes`` say what could
    not be shown, and why.
    """

    runs: Sequence[ReportRun]
    problems: Mapping[str, Mapping[str, Problem]]
    comparison: Mapping[str, Sequence[ComparisonRow]]
    diagnoses: Mapping[str, Mapping[str, Any]]
    notes: Sequence[str]
    groups: Sequence["SeedGroup"] = ()
    against_own: Mapping[str, Sequence[ComparisonRow]] = field(default_factory=dict)
    bands: Mapping[str, Mapping[str, Band]] = field(default_factory=dict)

    @property
    def sets(self) -> list[str]:
        """Every set that a run was evaluated on, in the order they come up."""
        return list(dict.fromkeys(name for run in self.runs for name in evaluated_sets(run)))

    def run(self, key: str) -> ReportRun:
        return next(run for run in self.runs if run.key == key)

    @property
    def drawn(self) -> dict[str, tuple[str, Look]]:
        """Label and look of every run, then of every group of seeds, by key."""
        of_runs = {run.key: (run.label, run.look) for run in self.runs}
        return of_runs | {group.key: (group.label, group.look) for group in self.groups}

    @property
    def folded(self) -> list[str]:
        """Keys of what is shown at first: groups of seeds, and the runs that are in none."""
        grouped = {key: group.key for group in self.groups for key in group.runs}
        return list(dict.fromkeys(grouped.get(run.key, run.key) for run in self.runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGroup:
    """Runs of one recipe with several seeds, by their keys; ``look`` is that of the first."""

    key: str
    label: str
    runs: Sequence[str]
    look: Look


def seed_groups(runs: Sequence[ReportRun]) -> list[SeedGroup]:
    """The groups of two runs and more, ``g0``, ``g1`` ...; a run without a recipe is in none."""
    by_results = {run.results: run for run in runs if run.recipe is not None}
    groups = [group for group in group_runs(list(by_results)) if len(group.runs) > 1]
    return [
        SeedGroup(
            key=f"g{i}",
            label=f"{method_label(group.name)} ({len(group.runs)} seeds)",
            runs=[by_results[one].key for one in group.runs],
            look=by_results[group.runs[0]].look,
        )
        for i, group in enumerate(groups)
    ]


def rows_over_seeds(key: str, of_seed: Sequence[Sequence[ComparisonRow]]) -> list[ComparisonRow]:
    """Means of the rows that every seed has, as rows of ``key``, with t-intervals."""
    found: dict[tuple[str, str], list[ComparisonRow]] = {}
    for row in (row for rows in of_seed for row in rows):
        found.setdefault((row.set_name, row.metric), []).append(row)
    means = []
    for rows in (rows for rows in found.values() if len(rows) == len(of_seed)):
        value, difference = mean_over_seeds([row.value for row in rows]), None
        lo, hi = value.interval((0.0, 1.0)) or (value.mean, value.mean)
        apart = [row.difference.mean for row in rows if row.difference is not None]
        if len(apart) == len(rows):
            over = mean_over_seeds(apart)
            ends = over.interval() or (over.mean, over.mean)
            difference = Difference(mean=over.mean, lo=ends[0], hi=ends[1])
        mean = replace(rows[0], run=key, value=value.mean, lo=lo, hi=hi, difference=difference)
        means.append(mean)
    return means


def evaluated_sets(run: ReportRun) -> list[str]:
    """The sets that a run has answers on, problems that cannot be graded included."""
    return [] if run.samples is None else list(run.samples["set"].unique().to_pylist())


def read_report(places: Sequence[str | Path], *, seed: int = 0) -> ReportData:
    """Read runs, and the evaluations of what they began with.

    Args:
        places: run directories, or directories of runs.
        seed: of the bootstrap.

    Raises:
        DataError: there is no run, a file is damaged, or runs were evaluated on other problems.
        SettingsError: one path was given instead of a list of them.
    """
    if isinstance(places, str | Path):
        raise SettingsError(f"read_report takes a list of runs, got {places!r}: write [{places!r}]")
    found = find_runs([Path(place) for place in places], any_recipe=True)
    runs = report_runs(found)
    scores = comparable_scores({run.key: run.samples for run in runs if run.samples is not None})
    runs = [replace(run, scores=scores.get(run.key, {})) for run in runs]
    problems, notes = read_set_problems({run.results: run.recipe for run in runs})
    diagnoses, unexplained = run_diagnoses(found, {run.path: run.key for run in runs})
    unread = [f"without its settings: {one.unread_recipe}" for one in found if one.unread_recipe]
    comparison = compare_sets({run.key: run.scores for run in runs}, seed=seed)
    against_own, bands = against_baselines(runs, comparison, seed=seed)
    return ReportData(
        runs=runs,
        problems=problems,
        comparison=comparison,
        diagnoses=diagnoses,
        notes=[*notes, *unread, *(one.why_alone for one in found if one.why_alone), *unexplained],
        groups=seed_groups(runs),
        against_own=against_own,
        bands=bands,
    )


def report_runs(found: Sequence[RunResults]) -> list[ReportRun]:
    """Initial policies first, each once however many runs began with it, without scores."""
    policies: dict[str, RunResults] = {}
    for run in found:
        if run.base is not None:
            policies.setdefault(run.base.identity, run.base)
    bases = list(policies.values())
    taken = {base.path.resolve() for base in bases}
    others = [run for run in found if run.path.resolve() not in taken]
    every = [*bases, *others]
    keys = {run: f"r{i}" for i, run in enumerate(every)}
    names = run_labels([run.path for run in every])
    called = unique_labels(names.values())
    labels = {run: called[names[str(run.path)]] for run in every}
    if len(bases) == 1:  # several are told apart by their places
        labels[bases[0]] = method_label(BASE)
    drawn = _looks(others, labels)
    runs = []
    for run in every:
        base = None if run in bases or run.base is None else policies[run.base.identity]
        one = ReportRun(
            key=keys[run],
            label=labels[run],
            results=run,
            is_base=run in bases,
            look=drawn[run],
            baseline=None if base is None else keys[base],
            samples=run.answers() if run.is_evaluated else None,
            scores={},
            log=[],
            tokens=run.tokens() if run.is_evaluated else {},
        )
        runs.append(one.with_logs())
    return runs


def _looks(
    others: Sequence[RunResults], labels: Mapping[RunResults, str]
) -> dict[RunResults, Look]:
    """A method has its own colour where only one run is of it; other runs take free ones."""
    recipes = {run: run.recipe for run in others}
    methods = {run: recipe.method for run, recipe in recipes.items() if recipe is not None}
    base = method_label(BASE)
    names = {run: BASE if label == base else run.path.name for run, label in labels.items()}
    drawn = looks_by_method({labels[run]: methods.get(run) or name for run, name in names.items()})
    return {run: drawn[label] for run, label in labels.items()}
