"""Forecast of a consolidation before it is paid for: a small one, measured.

Some labelled prompts are answered as the store's would be, and once greedily: how often answers
agree, and whether on a right result, says what can be learnt from agreement. Some of the unlabelled
prompts are stored and learnt from for two updates, by the stages that follow: what that takes says
what all of them will take. (The first prompt is stored once more before that, because what a
process does for the first time takes longer.) Nothing of it is kept but ``forecast.json``.
"""

import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, only_writer, read_json, write_json
from dph._base.randomness import derived_seed
from dph.errors import DataError
from dph.model.fingerprint import directory_fingerprint
from dph.model.policies import load_policy
from dph.recipe import Recipe, recipe_digest
from dph.records import UNGRADED, GradedCompletion, Outcome, Problem
from dph.runs.comparers import comparer
from dph.runs.directory import RunDirectory
from dph.runs.drawing import drawing
from dph.runs.evaluate.consensus import (
    Answered,
    Labelled,
    agreement_shares,
    consensus_accuracy,
    worth_of_agreement,
)
from dph.runs.forecast_prompts import Asked, only_store, prompts_asked
from dph.runs.plan import RunPlan
from dph.runs.planned_cost import SmallConsolidation, planned_cost
from dph.runs.presample.stores.store import stored_groups, stored_values
from dph.runs.progress import ProgressDisplay, Silent
from dph.runs.store_stage import store_stage
from dph.runs.timed_progress import TimedProgress
from dph.runs.train.metrics_file import read_metrics
from dph.runs.training_stage import train_stage
from dph.tasks.agreement import Comparer
from dph.tasks.problems import save_problems
from dph.tasks.verifiers.base import verifier_identity

UPDATES = 2
"""Updates that are timed: the first one takes longer than those that follow."""
PROMPTS = 50
SCHEMA = 1


def forecast_stage(
    plan: RunPlan,
    progress: ProgressDisplay,
    *,
    prompts: int = PROMPTS,
    labelled: Path | None = None,
) -> dict[str, Any]:
    """Measure, or find, the content of ``forecast.json``; ``plan`` is of the consolidated run.

    One that was killed begins anew: the time that half of it took says nothing.

    Raises:
        DphError: as ``store_stage`` and ``train_stage`` do; or no labelled prompt is left.
    """
    asked = prompts_asked(plan, prompts=prompts, labelled=labelled)
    digest = _digest(plan, asked)
    path = plan.directory.forecast
    place = RunDirectory(path.with_name(f"{path.stem}.partial"))
    with only_writer(path.parent):
        if place.path.exists():
            shutil.rmtree(place.path)
        if path.is_file() and (known := read_json(path)).get("digest") == digest:
            return dict(known)
        document = {"schema": SCHEMA, "digest": digest, **_measured(plan, place, asked, progress)}
        write_json(path, document)
        shutil.rmtree(place.path)
    return document


def comparing(plan: RunPlan) -> AbstractContextManager[Comparer]:
    """Comparer of the answers of the store.

    Raises:
        SettingsError: nobody can.
    """
    name, store = only_store(plan.recipe)
    instead = "use a verifier that can (docs/stores.md)"
    return comparer(plan, store.agreement, key=f"stores.{name}", instead=instead)


def _digest(plan: RunPlan, asked: Asked) -> str:
    name, store = only_store(plan.recipe)
    return recipe_digest(
        {
            "model": directory_fingerprint(plan.initial),
            "verifier": verifier_identity(plan.verifier),
            "labelled": plan.prompts.fingerprint(asked.labelled),
            "unlabelled": plan.prompts.fingerprint(asked.unlabelled),
            "planned": asked.planned,
            "where": asked.where,
            "name": name,
            "seed": plan.stores[name].seed,
            "threads": plan.recipe.model.threads,
        },
        store,
        plan.recipe.sampling,
        plan.recipe.train,
    )


def _measured(
    plan: RunPlan, place: RunDirectory, asked: Asked, progress: ProgressDisplay
) -> dict[str, Any]:
    started, (name, store) = time.perf_counter(), only_store(plan.recipe)
    clock = TimedProgress(progress, prefix="forecast: ")
    seed = derived_seed(plan.stores[name].seed, "forecast")
    known, tokens = _labelled_answers(plan, asked.labelled, clock, seed=seed)
    if not known:
        raise DataError(f"none of the {len(asked.labelled)} {asked.where} could be graded")
    small = _small_consolidation(plan, place, asked.unlabelled, clock)
    counted = "texts" if store.values == "distinct" else "answers"
    labelled = consensus_accuracy(known, seed=seed)
    shares = agreement_shares(small.groups, seed=seed)
    planned = planned_cost(
        small,
        prompts=asked.planned,
        answers=store.answers,
        updates=plan.recipe.train.steps,
        rows=_rows(plan.recipe),
    )
    return {
        "store": f"stores.{name}",
        "counted": counted,
        "labelled": {"where": asked.where, **labelled},
        "unlabelled": {"prompts": len(small.groups), "share": shares},
        "verdict": worth_of_agreement(labelled, shares, counted=counted).value,
        "planned": asdict(planned),
        "spent": {
            "answers": len(asked.labelled) * (store.answers + 1) + small.answers + small.untimed[0],
            "tokens": tokens + small.tokens + small.untimed[1],
            "seconds": round(time.perf_counter() - started, 2),
        },
    }


def _labelled_answers(
    plan: RunPlan, problems: Sequence[Problem], clock: TimedProgress, *, seed: int
) -> tuple[list[Labelled], int]:
    """Counts of the answers to labelled prompts, and the tokens that were drawn.

    A problem that could not be graded is left out.
    """
    _, store = only_store(plan.recipe)
    model, total = (
        load_policy(plan.initial, plan.recipe.model, initial=plan.initial),
        len(problems) * (store.answers + 1),
    )
    with (
        comparing(plan) as known,
        drawing(plan, model, plan.initial) as draw,
        clock.task("labelled prompts", total, "samples") as advance,
    ):
        likeliest = replace(draw, parameters=replace(draw.parameters, greedy=True))
        first = likeliest(problems, samples=1, seed=seed).groups
        advance(len(problems), "")
        drawn = draw(
            problems,
            samples=store.answers,
            seed=seed,
            on_progress=lambda amount: advance(amount, ""),
        ).groups
        texts = [[_answered(one) for one in group] for group in drawn]
        classes = known.classes(problems, texts)
    tokens = sum(len(one.completion.token_ids) for group in (*first, *drawn) for one in group)
    return [
        Labelled(
            classes=own,
            texts=tuple(one.completion.text for one in group),
            greedy=_is_right(greedy[0]),
            right=tuple(map(_is_right, group)),
        )
        for own, greedy, group in zip(classes, first, drawn, strict=True)
        if not any(one.verdict.outcome in UNGRADED for one in (*greedy, *group))
    ], tokens


def _answered(one: GradedCompletion) -> str | None:
    return one.completion.text if one.completion.finished else None


def _is_right(one: GradedCompletion) -> bool:
    return one.verdict.outcome is Outcome.CORRECT


def _small_consolidation(
    plan: RunPlan, place: RunDirectory, problems: Sequence[Problem], clock: TimedProgress
) -> SmallConsolidation:
    before = RunDirectory(place.path / "first")
    (first,) = store_stage(_of_some(plan, before, problems[:1]), Silent()).values()
    own = _of_some(plan, place, problems)
    ((name, manifest),) = store_stage(own, clock).items()
    if train_stage(own, clock).stopped:
        raise KeyboardInterrupt  # of a forecast nothing is kept
    at = own.stores[name].path
    values = stored_values(at)
    return SmallConsolidation(
        groups=[
            Answered(
                classes=tuple(v.answer_class for v in values[group.problem.problem_id]),
                texts=group.texts,
            )
            for group in stored_groups(at)
        ],
        answers=manifest.counts.answers,
        tokens=manifest.counts.tokens,
        untimed=(first.counts.answers, first.counts.tokens),
        store_seconds=sum(s for title, s in clock.seconds.items() if title.startswith("store ")),
        update_seconds=float(read_metrics(place.metrics)[-1]["seconds"]),
    )


def _of_some(plan: RunPlan, place: RunDirectory, problems: Sequence[Problem]) -> RunPlan:
    """The same consolidation of these prompts alone, with so few updates as are timed."""
    name, store = only_store(plan.recipe)
    file = make_directory(place.path) / "prompts.jsonl"
    save_problems(file, problems)
    few: dict[str, Any] = {"file": file, "limit": None, "only": {}, "novel": False, "place": None}
    train = {"steps": UPDATES, "checkpoint_every": UPDATES, "keep_samples": "none"}
    recipe = plan.recipe.model_copy(
        update={
            "stores": {name: store.model_copy(update=few)},
            "train": plan.recipe.train.model_copy(update=train),
            "track": plan.recipe.track.model_copy(update={"to": ()}),
        }
    )
    return replace(plan, recipe=recipe, directory=place)


def _rows(recipe: Recipe) -> int:
    (anchor,) = recipe.objective.active_anchors.values()
    return int(anchor.per_step or recipe.train.rehearsal_per_step)
