"""All that a report shows, read from run directories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph._base.files import read_json
from dph.errors import DataError, SettingsError
from dph.recipe import Recipe
from dph.records import Problem
from dph.results.charts.palette import BASE, Look, looks_by_method, method_label, run_labels
from dph.results.diagnosis import diagnose, diagnosis_document
from dph.results.report.answers import Tokens, token_rows
from dph.runs.evaluate.comparison import ComparisonRow, compare
from dph.runs.evaluate.progress_file import (
    PROGRESS_FILE,
    read_progress_file,
    rows_of_step,
    step_metrics_of,
    step_summary,
)
from dph.runs.evaluate.samples_file import comparable_scores, read_samples, samples_digest
from dph.runs.evaluate.scores import PROBLEMS_FILE, SetScores, read_kept_problems
from dph.runs.found_runs import FoundRun, find_runs
from dph.runs.layout import CONSOLIDATION, EVALUATION, METRICS, SAMPLES
from dph.runs.train.metrics_file import read_metrics
from dph.tasks.problems import load_problems

# Every set's runs against the first of them: the table's numbers and the curves' points.


def compare_sets(
    scores: Mapping[str, Mapping[str, SetScores]], *, seed: int
) -> dict[str, list[ComparisonRow]]:
    """For each set greedy, mean and Pass@k of the runs that were evaluated on it, by run.

    The first run that has the set is what the others are compared with.

    Raises:
        DataError: runs were evaluated on different problems of a set.
    """
    names = list(dict.fromkeys(name for of_run in scores.values() for name in of_run))
    return {name: _compare_set(scores, name, seed) for name in names}


def curve_ks(samples: int) -> list[int]:
    """The k of a Pass@k curve: powers of two, and all samples.

    >>> curve_ks(16), curve_ks(10)
    ([1, 2, 4, 8, 16], [1, 2, 4, 8, 10])
    """
    powers = [2**i for i in range(samples.bit_length())]
    return sorted({*powers, samples})


def table_ks(samples: int) -> list[int]:
    """The k that a table shows: the usual ones that fit, else all samples.

    >>> table_ks(16), table_ks(3)
    ([8, 16], [3])
    """
    return [k for k in (8, 16, 32, 64, 128) if k <= samples] or [samples]


def fewest_samples(scores: Sequence[SetScores]) -> int:
    """Samples of a problem that every run has."""
    return min(of_run.samples for of_run in scores)


def _compare_set(
    scores: Mapping[str, Mapping[str, SetScores]], name: str, seed: int
) -> list[ComparisonRow]:
    runs = {run: {name: sets[name]} for run, sets in scores.items() if name in sets}
    samples = fewest_samples([sets[name] for sets in runs.values()])
    ks = sorted({*curve_ks(samples), *table_ks(samples)})
    return compare(runs, None, ks, seed)


# The diagnosis of every run that has something to be compared with.


def run_diagnoses(
    found: Sequence[FoundRun], keys: Mapping[Path, str]
) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The documents of ``dph diagnose`` by the run's key, and why others have none."""
    documents: dict[str, Mapping[str, Any]] = {}
    notes = []
    for run in found:
        if run.base is None or run.path not in keys:
            continue
        try:
            documents[keys[run.path]] = diagnosis_document(diagnose(run.path))
        except DataError as error:  # the rest of the report is of use without it
            notes.append(f"no diagnosis of {run.path}: {error}")
    return documents, notes


def changes_of(document: Mapping[str, Any] | None, set_name: str) -> dict[str, str]:
    """Change of each problem of a set (lost, gained, kept ...), by its id."""
    if document is None or set_name not in document["sets"]:
        return {}
    problems = document["sets"][set_name]["problems"]
    return {problem["problem_id"]: problem["change"] for problem in problems}


# The problems of the sets that runs were evaluated on: prompts and gold answers.

SetProblems = dict[str, dict[str, Problem]]


def read_set_problems(runs: Mapping[Path, Recipe | None]) -> tuple[SetProblems, list[str]]:
    """The problems of every set, by set and id, and what is not there.

    They are those next to a run's answers; of a run without them those that its recipe
    names.

    Raises:
        DataError: a file is malformed, or two runs have other problems under one set's name.
    """
    sets: SetProblems = {}
    origins: dict[str, Path] = {}
    notes: dict[Path, str] = {}
    read: dict[Path, dict[str, Problem]] = {}
    for run, recipe in runs.items():
        for name, path, problems in _of_run(run, recipe, read, notes):
            first = sets.setdefault(name, problems)
            _require_same(name, first, problems, origins.setdefault(name, path), path)
    return sets, list(notes.values())


def _of_run(
    run: Path, recipe: Recipe | None, read: dict[Path, dict[str, Problem]], notes: dict[Path, str]
) -> list[tuple[str, Path, dict[str, Problem]]]:
    """Sets with the file that their problems come from."""
    kept: SetProblems = {}
    for (name, problem_id), problem in read_kept_problems(run / PROBLEMS_FILE).items():
        kept.setdefault(name, {})[problem_id] = problem
    found = [(name, run / PROBLEMS_FILE, problems) for name, problems in kept.items()]
    for name, chosen in ({} if recipe is None else recipe.data.sets).items():
        path = chosen.path.resolve()
        if name in kept:
            continue
        if not path.is_file():
            notes[path] = f"{path}, the problems of {name}, is missing: no prompts, no gold"
            continue
        if path not in read:
            read[path] = {problem.problem_id: problem for problem in load_problems(path)}
        found.append((name, path, read[path]))
    return found


def _require_same(
    name: str,
    first: Mapping[str, Problem],
    other: Mapping[str, Problem],
    first_path: Path,
    other_path: Path,
) -> None:
    if first == other:
        return
    differing = next((i for i in [*first, *other] if first.get(i) != other.get(i)), "?")
    raise DataError(
        f"the runs have other problems in their sets {name!r}: {first_path} and {other_path} "
        f"differ, for example in {differing!r}; make a report of each"
    )


# A run's log with what was measured before its first step, where it measured while it trained.


def training_log(run: Path, recipe: Recipe | None) -> list[Mapping[str, Any]]:
    """The rows of ``metrics.jsonl``; before them one of step 0, if ``progress.parquet`` has it.

    Raises:
        DataError: a file is damaged.
    """
    rows: list[Mapping[str, Any]] = list(read_metrics(run / METRICS))
    initial = rows_of_step(read_progress_file(run / PROGRESS_FILE), 0)
    if recipe is None or not rows or not initial.num_rows:
        return rows
    ks, seed = recipe.evaluate.during.k, recipe.evaluate.seed
    summary = step_summary(initial, ks=ks, seed=recipe.seed if seed is None else seed)
    return [{"step": 0, **step_metrics_of(summary)}, *rows]


def log_after_rl(run: Path) -> list[Mapping[str, Any]]:
    """The rows of what followed RL, whose steps begin again at 1; none where nothing did.

    Raises:
        DataError: the file is damaged.
    """
    return list(read_metrics(run / CONSOLIDATION / METRICS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportRun:
    """A run or an initial policy, with what its directory holds.

    ``key`` names it in the page (``r0``, ``r1`` ...), ``label`` for people, ``baseline`` is the key
    of the initial policy that it is compared with (None: it is one, or none was found). ``log``
    has the steps of training, ``after_rl`` those of the consolidation that followed.
    """

    key: str
    label: str
    path: Path
    is_base: bool
    look: Look
    recipe: Recipe | None
    evaluation: Mapping[str, Any] | None
    samples: pa.Table | None
    scores: Mapping[str, SetScores]
    log: Sequence[Mapping[str, Any]]
    after_rl: Sequence[Mapping[str, Any]]
    tokens: Tokens
    baseline: str | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportData:
    """Runs (initial policies first), their problems, and what was computed of them.

    ``diagnoses`` holds the document of ``dph diagnose`` for each run that has a baseline, by key;
    ``notes`` say what could not be shown, and why.
    """

    runs: Sequence[ReportRun]
    problems: Mapping[str, Mapping[str, Problem]]
    comparison: Mapping[str, Sequence[ComparisonRow]]
    diagnoses: Mapping[str, Mapping[str, Any]]
    notes: Sequence[str]

    @property
    def sets(self) -> list[str]:
        """Every set that a run was evaluated on, in the order they come up."""
        return list(dict.fromkeys(name for run in self.runs for name in evaluated_sets(run)))

    def run(self, key: str) -> ReportRun:
        """The run of that key."""
        return next(run for run in self.runs if run.key == key)


def evaluated_sets(run: ReportRun) -> list[str]:
    """The sets that a run has answers on, problems that cannot be graded included."""
    if run.samples is None:
        return []
    names: list[str] = run.samples["set"].unique().to_pylist()
    return names


def read_report(places: Sequence[str | Path], *, seed: int = 0, texts: bool = True) -> ReportData:
    """Read runs, and the evaluations of what they began with.

    Args:
        places: run directories, or directories of runs.
        seed: of the bootstrap.
        texts: whether the samples have their texts, which are most of what they take.

    Raises:
        DataError: there is no run, a file is damaged, or runs were evaluated on other problems.
        SettingsError: a recipe is not valid, or one path was given instead of a list of them.
    """
    if isinstance(places, str | Path):
        raise SettingsError(f"read_report takes a list of runs, got {places!r}: write [{places!r}]")
    found = find_runs([Path(place) for place in places])
    runs = _with_scores(report_runs(found, lambda path: read_samples(path, texts=texts)))
    problems, notes = read_set_problems({run.path: run.recipe for run in runs})
    diagnoses, unexplained = run_diagnoses(found, {run.path: run.key for run in runs})
    alone = [one.why_alone for one in found if one.why_alone]
    return ReportData(
        runs=runs,
        problems=problems,
        comparison=compare_sets({run.key: run.scores for run in runs}, seed=seed),
        diagnoses=diagnoses,
        notes=[*notes, *alone, *unexplained],
    )


def report_runs(
    found: Sequence[FoundRun], read: Callable[[Path], pa.Table | None]
) -> list[ReportRun]:
    """Initial policies first, each once however many runs began with it, without scores.

    ``read`` gives the rows of a samples file, None where they are not wanted; tokens are read with
    them.
    """
    policies: dict[str, Path] = {}
    baseline_of: dict[Path, str] = {}
    for run in found:
        if run.base is not None:
            digest = samples_digest(run.base / SAMPLES) or str(run.base.resolve())
            first = policies.setdefault(digest, run.base)
            baseline_of[run.path] = str(first.resolve())
    bases = list(policies.values())
    others = [one for one in found if one.path.resolve() not in {b.resolve() for b in bases}]
    paths = [*bases, *(one.path for one in others)]
    keys = {str(path.resolve()): f"r{i}" for i, path in enumerate(paths)}
    recipes = {one.path: one.recipe for one in others}
    labels = _labels(bases, [one.path for one in others])
    drawn = _looks(paths, labels, recipes)
    return [
        ReportRun(
            key=keys[str(path.resolve())],
            label=labels[path],
            path=path,
            is_base=path in bases,
            look=drawn[path],
            recipe=recipes.get(path),
            evaluation=_document(path),
            samples=(table := read(path / SAMPLES) if (path / SAMPLES).is_file() else None),
            scores={},
            log=[] if path in bases else training_log(path, recipes.get(path)),
            after_rl=[] if path in bases else log_after_rl(path),
            tokens={} if table is None or "text" not in table.column_names else token_rows(path),
            baseline=keys.get(baseline_of.get(path, "")),
        )
        for path in paths
    ]


def _labels(bases: Sequence[Path], runs: Sequence[Path]) -> dict[Path, str]:
    """One initial policy is the base model; several are told apart by where they lie."""
    names = run_labels([*bases, *runs])
    labels = {path: method_label(names[str(path)]) for path in [*bases, *runs]}
    if len(bases) == 1:
        labels[bases[0]] = method_label(BASE)
    return labels


def _looks(
    paths: Sequence[Path], labels: Mapping[Path, str], recipes: Mapping[Path, Recipe | None]
) -> dict[Path, Look]:
    """A method has its own colour where only one run is of it; other runs take free ones."""
    methods = {path: recipe.method for path in paths if (recipe := recipes.get(path)) is not None}
    drawn = looks_by_method(
        {
            labels[path]: methods.get(path)
            or (BASE if labels[path] == method_label(BASE) else path.name)
            for path in paths
        }
    )
    return {path: drawn[labels[path]] for path in paths}


def _document(path: Path) -> Mapping[str, Any] | None:
    if not (path / EVALUATION).is_file():
        return None
    document = read_json(path / EVALUATION)
    if not isinstance(document, dict) or "sets" not in document:
        raise DataError(f"{path / EVALUATION} is not an evaluation: it has no 'sets'")
    return document


def _with_scores(runs: Sequence[ReportRun]) -> list[ReportRun]:
    scores = comparable_scores({run.key: run.samples for run in runs if run.samples is not None})
    return [replace(run, scores=scores.get(run.key, {})) for run in runs]
