"""Consolidate a finished model: a separate run, with a forecast before it is paid for.

The forecast is a small consolidation, measured. Some labelled prompts are answered as the store's
would be, and once greedily: how often answers agree, and whether on a right result, says what can
be learnt from agreement. Some of the unlabelled prompts are stored and learnt from for two updates,
by the stages that follow: what that takes says what all of them will take. (The first prompt is
stored once more before that, because what a process does for the first time takes longer.) Nothing
of it is kept but ``forecast.json``.
"""

import math
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dph._base.files import atomic_path, make_directory, only_writer, read_json, write_json
from dph._base.randomness import derived_seed
from dph.errors import DataError
from dph.model.policies import directory_fingerprint, load_policy
from dph.recipe import Recipe, StoreSettings, recipe_digest
from dph.records import UNGRADED, GradedCompletion, Outcome, Problem
from dph.runs.directory import EvaluationDirectory, RunDirectory, read_metrics
from dph.runs.drawing import drawing, require_engine
from dph.runs.evaluate.consensus import (
    Answered,
    Labelled,
    agreement_shares,
    consensus_accuracy,
    worth_of_agreement,
)
from dph.runs.evaluation_stage import require_evaluable
from dph.runs.finished_models import ConsolidationSource
from dph.runs.plan import RunPlan
from dph.runs.presample.stores.prompts import require_no_tests, same_prompts, store_prompts
from dph.runs.presample.stores.store import stored_groups, stored_values
from dph.runs.progress import ProgressDisplay, Silent, TimedProgress
from dph.runs.run import RunResult, run_stages
from dph.runs.store_stage import known_problems, require_prompts, store_stage
from dph.runs.training_stage import some_problems, steps_done, train_stage
from dph.runs.verifier_use import comparer
from dph.tasks.agreement import Comparer
from dph.tasks.problems import load_problems, save_problems
from dph.tasks.verifiers.base import verifier_identity

# The prompts of a forecast: labelled ones, and some of those to consolidate on.


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The prompts of a forecast.

    Attributes:
        where: what the labelled ones are, for people.
        labelled: some problems with gold answers, none of an evaluation set.
        unlabelled: some of the prompts to consolidate on.
        planned: how many of those there are.
    """

    where: str
    labelled: tuple[Problem, ...]
    unlabelled: tuple[Problem, ...]
    planned: int


TRAINING = "training problems"
"""The labelled prompts of a forecast where no file is named; RL has seen them."""


def prompts_asked(plan: RunPlan, *, prompts: int, labelled: Path | None) -> Asked:
    """Prompts of a forecast: a function of the files, the numbers and the recipe's seed.

    Raises:
        DataError: a file is missing or malformed, has questions of an evaluation set, or no
            training problem is left that is none.
    """
    name, store = only_store(plan.recipe)
    seed, known = plan.stores[name].seed, known_problems(plan)
    tests = [problem for problems in known.sets.values() for problem in problems]
    if labelled is None:
        where = TRAINING
        taken = {problem.problem_id for problem in same_prompts(plan.problems, tests)}
        rows = [problem for problem in plan.problems if problem.problem_id not in taken]
        if not rows:
            raise DataError(
                f"all {len(taken)} training problems also belong to an evaluation set, which a "
                f"forecast does not use: name a file of other problems (--labelled FILE)"
            )
    else:
        where = f"problems of {labelled}"
        rows = load_problems(labelled, columns=plan.recipe.data.columns)
        require_no_tests("--labelled", rows, None, known)
    planned = store_prompts(f"stores.{name}", store, known, seed=seed)
    return Asked(
        where=where,
        labelled=some_problems(rows, name="forecast, labelled", count=prompts, seed=seed),
        unlabelled=some_problems(planned, name="forecast", count=prompts, seed=seed),
        planned=len(planned),
    )


def only_store(recipe: Recipe) -> tuple[str, StoreSettings]:
    """The store of a consolidation's recipe, and its name."""
    ((name, store),) = recipe.used_stores.items()
    return name, store


# Expected cost of a consolidation, from a small one.


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallConsolidation:
    """Measurements of a small consolidation."""

    groups: Sequence[Answered]
    answers: int
    tokens: int
    untimed: tuple[int, int]
    """Answers and tokens that were drawn in addition."""
    store_seconds: float
    update_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """Expected cost of the whole consolidation, without its evaluation."""

    prompts: int
    answers: int
    tokens: int
    tokens_per_second: float
    """Drawn, stored and compared."""
    store_seconds: float
    updates: int
    seconds_per_update: float
    minutes: float
    """Of the store and the updates."""


def planned_cost(
    small: SmallConsolidation, *, prompts: int, answers: int, updates: int, rows: int
) -> PlannedCost:
    """The cost of ``prompts`` x ``answers`` and of ``updates``, from that of a small consolidation.

    Computed as: an answer takes as long, and has as many tokens, as one of the small store; an
    update as long as the small one's, stretched where that learnt from fewer rows.
    """
    wanted = prompts * answers
    drawing = small.store_seconds / small.answers * wanted
    whole = answers * math.ceil(rows / answers)  # whole prompts, until there are so many rows
    update = small.update_seconds * min(whole, wanted) / min(whole, small.answers)
    return PlannedCost(
        prompts=prompts,
        answers=wanted,
        tokens=round(small.tokens / small.answers * wanted),
        tokens_per_second=small.tokens / small.store_seconds,
        store_seconds=drawing,
        updates=updates,
        seconds_per_update=update,
        minutes=(drawing + updates * update) / 60,
    )


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
    data, model = plan.recipe.data, plan.recipe.model
    with comparing(plan) as compared:
        comparer_identity = compared.identity
    return recipe_digest(
        {
            "model": directory_fingerprint(plan.initial),
            "verifier": verifier_identity(plan.verifier),
            "comparer": comparer_identity,
            "chat": (data.chat, data.system_prompt, data.template),
            "labelled": plan.prompts.fingerprint(asked.labelled),
            "unlabelled": plan.prompts.fingerprint(asked.unlabelled),
            "planned": asked.planned,
            "where": asked.where,
            "name": name,
            "seed": plan.stores[name].seed,
        },
        store,
        model.model_dump(mode="json", exclude={"path"}),
        plan.recipe.objective,
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
        texts = [[one.completion.answer for one in group] for group in drawn]
        classes = known.classes(problems, texts)
    tokens = sum(one.completion.length for group in (*first, *drawn) for one in group)
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


# Consolidate a finished model: a separate run, with a forecast before it.


def consolidation_forecast(
    plan: RunPlan,
    progress: ProgressDisplay,
    *,
    prompts: int = PROMPTS,
    labelled: Path | None = None,
) -> dict[str, Any]:
    """``forecast_stage``, once everything that the run would be refused for was looked at.

    Raises:
        DphError: as ``forecast_stage`` does; or the directory holds another run.
    """
    require_engine(plan.recipe)
    require_evaluable(plan)
    require_prompts(plan, *plan.stores)
    steps_done(plan)
    return forecast_stage(plan, progress, prompts=prompts, labelled=labelled)


def consolidate_stage(
    plan: RunPlan, source: ConsolidationSource, progress: ProgressDisplay
) -> RunResult:
    """Store, learn and evaluate; ``plan`` is of ``consolidation_recipe`` for the source's model.

    What was measured of the model already is taken over, as far as it would be drawn alike.

    Raises:
        DphError: as ``run_stages`` does.
    """
    _keep_samples(source, plan.directory.base)
    return run_stages(plan, progress)


def _keep_samples(source: ConsolidationSource, base: EvaluationDirectory) -> None:
    """Of samples that were drawn otherwise nothing is kept: the evaluation compares digests."""
    samples = source.evaluated()
    if samples is None or base.samples.exists():
        return
    make_directory(base.path)
    with atomic_path(base.samples) as temporary:
        shutil.copyfile(samples, temporary)
