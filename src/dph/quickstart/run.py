"""Runs of the quickstart: the shipped recipes, one after another or side by side."""

import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from dph._base.files import atomic_path, held, make_directory, write_json
from dph._processes.jobs.cores import CoreJobs
from dph._processes.jobs.processes import Job
from dph.errors import DataError, SettingsError, TrainingError
from dph.quickstart.archive import task_files, unpack
from dph.quickstart.words import SolvedChange, first_sentence, interval_lines, solved_changes
from dph.recipe import Recipe, load_recipe, recipe_toml, resolve_recipe
from dph.results.charts.figures import quickstart_figure
from dph.results.charts.tables import cost_document
from dph.results.report import read_report, write_report
from dph.results.vocabulary import BASE
from dph.runs.directory import RunDirectory, read_metrics
from dph.runs.evaluate.evaluated_runs import read_runs
from dph.runs.evaluate.scores import read_evaluation
from dph.runs.progress import ProgressDisplay, ShownProgress, ToldProgress
from dph.runs.run import evaluate, presample, run
from dph.runs.stage_costs import run_cost

METHODS = ("grpo", "dph_f", "rkl")
"""Methods that are compared where none is named."""
_TINY = (
    "train.steps=2",
    "train.problems_per_step=4",
    "train.rehearsal_per_step=4",
    "train.checkpoint_every=1",
    "presample.threshold=1",
)
_CHECKPOINT = 30.0
"""Seconds that children have for a last checkpoint when somebody asks for an end."""


def quickstart(
    out: Path,
    *,
    progress: ProgressDisplay,
    task: str = "countdown",
    methods: Sequence[str] = METHODS,
    seed: int = 0,
    tiny: bool = False,
    jobs: int = 1,
) -> dict[str, Any]:
    """Run everything that is not done yet in ``out`` and return the content of ``summary.json``.

    Killed at any moment and started again with the same arguments it continues. ``jobs`` methods
    train at a time, which changes nothing but the time.

    Raises:
        SettingsError: there is no such task, or no recipe of that name, neither in the archive nor
            in ``out/recipes``.
        DataError: ``out`` holds another quickstart.
        KeyboardInterrupt: Ctrl-C, after training has written a checkpoint.
    """
    if not methods or len(set(methods)) < len(methods):
        raise SettingsError(f"name at least one method, each once, got {', '.join(methods)!r}")
    shipped = (PurePosixPath(name) for name in task_files(task))
    known = {path.stem for path in (*shipped, *out.glob("recipes/*.toml")) if _is_recipe(path)}
    if unknown := [name for name in methods if name not in known]:
        raise SettingsError(
            f"unknown method {unknown[0]!r}; choose from {', '.join(sorted(known))}"
        )
    unpack(task, out, seed=seed, tiny=tiny)
    overrides = _TINY if tiny else ()
    recipes = [
        load_recipe(out / "recipes" / f"{name}.toml", overrides=overrides, seed=seed)
        for name in methods
    ]
    compare_recipes(recipes, out, progress, jobs=jobs)
    return _summary(recipes, out, seed=seed)


def _is_recipe(path: PurePath) -> bool:
    return path.parent.name == "recipes" and path.suffix == ".toml"


def compare_recipes(
    recipes: Sequence[Recipe], out: Path, progress: ProgressDisplay, *, jobs: int = 1
) -> None:
    """Run recipes of one model, pool and evaluation in ``out/<name>``, at most ``jobs`` at a time.

    The base model is evaluated once, in ``out/base``; finished work is kept.

    Raises:
        DphError: a run failed; the others are ended too, and continue next time.
        KeyboardInterrupt: Ctrl-C, after training has written a checkpoint.
    """
    _share(recipes, out, progress)
    payloads = [
        {"run": str((out / recipe.name).resolve()), "recipe": recipe_toml(recipe)}
        for recipe in recipes
    ]
    if jobs > 1 and len(recipes) > 1:
        _side_by_side(payloads, progress, jobs=jobs)
    else:
        for payload in payloads:
            _run(payload, progress)


def _share(recipes: Sequence[Recipe], out: Path, progress: ProgressDisplay) -> None:
    """The pool and the evaluation of the base model, once for all recipes."""
    pooled = next((recipe for recipe in recipes if recipe.needs_pool), None)
    if pooled is not None:
        presample(pooled, out / pooled.name, progress=progress)
    evaluate(recipes[0], out, model=recipes[0].model.path, progress=progress)
    for recipe in recipes:
        own = out / recipe.name / BASE
        if not own.exists():
            with atomic_path(make_directory(own.parent) / BASE) as temporary:
                shutil.copytree(out / BASE, temporary)


def _run(payload: Mapping[str, str], progress: ProgressDisplay) -> None:
    recipe = resolve_recipe(tomllib.loads(payload["recipe"]))
    if run(recipe, payload["run"], progress=progress).trained.stopped:
        raise KeyboardInterrupt


def run_told(payload: Mapping[str, str]) -> None:
    """Run a recipe in a child, and print its progress for the parent."""
    with held(Path(f"{payload['run']}.lock")):
        _run(payload, ToldProgress(sys.stdout))


def _side_by_side(
    payloads: Sequence[Mapping[str, str]], progress: ProgressDisplay, *, jobs: int
) -> None:
    shown = ShownProgress(progress)
    children = CoreJobs(
        jobs, lambda run: Path(f"{run}.log"), entry=f"{__name__}:run_told", on_line=shown.line
    )
    waiting, running = list(payloads), 0
    try:
        while waiting or running:
            while waiting and running < children.capacity:
                payload = waiting.pop(0)
                children.start(Job(payload["run"], payload))
                running += 1
            ended, running = children.wait(), running - 1
            if ended.error:
                kind = DataError if ended.bad_input else TrainingError
                raise kind(f"{Path(ended.id).name}: {ended.error}")
    except KeyboardInterrupt:
        children.close(patience=_CHECKPOINT)
        raise
    finally:
        children.close()
        shown.close()


def _summary(recipes: Sequence[Recipe], out: Path, *, seed: int) -> dict[str, Any]:
    """Scores and costs of all models, and the sentences on them."""
    changes = _changes([recipe.name for recipe in recipes], out)
    tries = recipes[0].evaluate.samples
    summary = {
        "schema": 4,
        "seed": seed,
        "words": [first_sentence(changes, tries=tries), *interval_lines(changes)],
        "solved": {name: [asdict(one) for one in of] for name, of in changes.items()},
        "base": _sets(out / BASE),
        "methods": {recipe.name: _sets(out / recipe.name) for recipe in recipes},
        "cost": {r.name: cost_document(run_cost(out / r.name, r)) for r in recipes},
    }
    write_json(out / "summary.json", summary)
    return summary


def _changes(names: Sequence[str], out: Path) -> dict[str, list[SolvedChange]]:
    places = {name: out / name for name in (BASE, *names)}
    scores = read_runs(list(places.values()), ())
    return solved_changes({name: scores[str(place)] for name, place in places.items()})


def _sets(directory: Path) -> dict[str, Any]:
    return {"sets": read_evaluation(RunDirectory(directory).evaluation)["sets"]}


def save_picture(summary: Mapping[str, Any], out: Path) -> Path:
    """Draw ``quickstart.png`` and return its path."""
    metrics = {name: read_metrics(RunDirectory(out / name).metrics) for name in summary["methods"]}
    path = out / "quickstart.png"
    quickstart_figure(summary, metrics, path, headline=summary["words"][0])
    return path


def save_report(summary: Mapping[str, Any], out: Path) -> Path:
    """Write ``report.html`` and return its path.

    Raises:
        SettingsError: the extra ``report`` is not installed.
    """
    path, runs = out / "report.html", [out / name for name in summary["methods"]]
    data = read_report(runs, seed=summary["seed"])
    write_report(data, path, title="dph quickstart", lead=summary["words"][0])
    return path
