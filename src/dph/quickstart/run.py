"""Runs of the quickstart, one after another or side by side, and a sentence on what they lost."""

import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dph._base.files import atomic_path, held, make_directory, write_json
from dph._processes.jobs import CoreJobs, Job
from dph.errors import DataError, SettingsError, TrainingError
from dph.quickstart.archive import task_files, unpack
from dph.recipe import Recipe, load_recipe, recipe_toml, resolve_recipe
from dph.results.charts.tables import cost_document
from dph.results.vocabulary import BASE, method_label, where_of
from dph.runs.directory import EVALUATION
from dph.runs.evaluate.evaluated_runs import read_runs
from dph.runs.evaluate.intervals import paired_difference
from dph.runs.evaluate.scores import SetScores, read_evaluation
from dph.runs.progress import ProgressDisplay, ShownProgress, ToldProgress
from dph.runs.run import evaluate, presample, run
from dph.runs.stage_costs import run_cost

METHODS = ("grpo", "dph_f", "rkl")  # where none is named
_TINY = (
    *("train.steps=2", "train.problems_per_step=4", "train.rehearsal_per_step=4"),
    "train.checkpoint_every=1",
)
_TINY_THRESHOLD = {"countdown": 1, "sql": 8}  # so that both sides of a tiny pool have problems


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
        SettingsError: there is no such task or method.
        DataError: ``out`` holds another quickstart.
        KeyboardInterrupt: Ctrl-C, after training has written a checkpoint.
    """
    if not methods or len(set(methods)) < len(methods):
        raise SettingsError(f"name at least one method, each once, got {', '.join(methods)!r}")
    recipe_files = [*map(Path, task_files(task)), *out.glob("recipes/*.toml")]
    known = {path.stem for path in recipe_files if path.suffix == ".toml"}
    if unknown := [name for name in methods if name not in known]:
        choice = ", ".join(sorted(known))
        raise SettingsError(f"unknown method {unknown[0]!r}; choose from {choice}")
    unpack(task, out, seed=seed, tiny=tiny)
    overrides = (*_TINY, f"presample.threshold={_TINY_THRESHOLD[task]}") if tiny else ()
    recipes = [
        load_recipe(out / f"recipes/{m}.toml", overrides=(*overrides, f"name={m}"), seed=seed)
        for m in methods  # the copy of a recipe may have kept its name
    ]
    compare_recipes(recipes, out, progress, jobs=jobs)
    return _summary(recipes, out, seed=seed)


def compare_recipes(
    recipes: Sequence[Recipe], out: Path, progress: ProgressDisplay, *, jobs: int = 1
) -> None:
    """Run recipes of one model, pool and evaluation in ``out/<name>``, at most ``jobs`` at a time.

    The pool is made and the base model evaluated, in ``out/base``, once; finished work is kept.

    Raises:
        DphError: a run failed; the others are ended too, and continue next time.
        KeyboardInterrupt: Ctrl-C, after training has written a checkpoint.
    """
    pooled = next((recipe for recipe in recipes if recipe.needs_pool), None)
    if pooled is not None:
        presample(pooled, out / pooled.name, progress=progress)
    evaluate(recipes[0], out, model=recipes[0].model.path, progress=progress)
    for own in (out / recipe.name / BASE for recipe in recipes):
        if not own.exists():
            with atomic_path(make_directory(own.parent) / BASE) as temporary:
                shutil.copytree(out / BASE, temporary)
    payloads = [{"run": str(out.resolve() / r.name), "recipe": recipe_toml(r)} for r in recipes]
    if jobs > 1 and len(recipes) > 1:
        _side_by_side(payloads, progress, jobs=jobs)
    else:
        for payload in payloads:
            _run(payload, progress)


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
        children.close(patience=30.0)  # seconds for a last checkpoint
        raise
    finally:
        children.close()
        shown.close()


def _summary(recipes: Sequence[Recipe], out: Path, *, seed: int) -> dict[str, Any]:
    names = [recipe.name for recipe in recipes]
    scores = read_runs([out / name for name in (BASE, *names)], ())
    changes = solved_changes({name: scores[str(out / name)] for name in (BASE, *names)})
    evaluated = {name: read_evaluation(out / name / EVALUATION) for name in (BASE, *names)}
    models = {name: {"sets": of["sets"]} for name, of in evaluated.items()}
    summary = {
        "schema": 4,
        "seed": seed,
        "words": first_sentence(changes, tries=recipes[0].evaluate.samples),
        "solved": {name: [asdict(one) for one in of] for name, of in changes.items()},
        "base": models.pop(BASE),
        "methods": models,
        "cost": {r.name: cost_document(run_cost(out / r.name, r)) for r in recipes},
    }
    write_json(out / "summary.json", summary)
    return summary


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedChange:
    """Problems of a set that a model solves, against the base model.

    ``change`` is the model's number minus the base model's, with its 95% interval over problems.
    """

    set_name: str
    base: int
    change: int
    lo: float
    hi: float


def solved_changes(
    scores: Mapping[str, Mapping[str, SetScores]], *, seed: int = 0
) -> dict[str, list[SolvedChange]]:
    """Changes of every model but ``base``, by set; a problem is solved if any sample is right."""
    found: dict[str, list[SolvedChange]] = {}
    for model, sets in scores.items():
        for name, of_set in sets.items() if model != BASE else ():
            before, after = (
                (one.correct_counts > 0).astype(np.float64) for one in (scores[BASE][name], of_set)
            )
            apart, count = paired_difference(after, before, seed=seed), len(before)
            change = SolvedChange(
                set_name=name,
                base=int(before.sum()),
                change=int(after.sum() - before.sum()),
                lo=count * apart.lo,
                hi=count * apart.hi,
            )
            found.setdefault(model, []).append(change)
    return found


def first_sentence(changes: Mapping[str, Sequence[SolvedChange]], *, tries: int) -> str:
    """Losses and gains of every method in one sentence.

    >>> lost = SolvedChange(set_name="in_domain", base=420, change=-69, lo=-85.0, hi=-53.0)
    >>> kept = SolvedChange(set_name="in_domain", base=420, change=6, lo=-9.0, hi=21.0)
    >>> first_sentence({"grpo": [lost], "dph_f": [kept]}, tries=16)
    'Of the problems that the base model solves within 16 tries, GRPO lost 69 of 420 in domain; \
DPH-F kept them (+6 in domain: no loss beyond chance).'
    """
    clauses = []
    for name, of in changes.items():
        lost = [f"{-c.change} of {c.base} {where_of(c.set_name)}" for c in of if c.hi < 0]
        kept = ", ".join(f"{c.change:+d} {where_of(c.set_name)}" for c in of if not c.hi < 0)
        said = f"kept them ({kept}: no loss beyond chance)"
        if lost:
            said = f"lost {' and '.join(lost)}" + (f" and kept the others ({kept})" if kept else "")
        clauses.append(f"{method_label(name)} {said}")
    solved = f"Of the problems that the base model solves within {tries} tries"
    return f"{solved}, {'; '.join(clauses)}."
