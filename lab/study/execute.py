"""Jobs, each in a separate process: prepare a world of a seed, or make one run on it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch

from dph._base.files import held, make_directory
from dph._base.provenance import code_commit, versions
from dph.errors import DataError, SettingsError
from dph.model.loading import computed_by
from dph.model.policies import directory_fingerprint
from dph.recipe import ModelSettings, Recipe
from dph.records import Outcome
from dph.runs.directory import EvaluationDirectory, RunDirectory
from dph.runs.evaluate.samples_file import read_samples
from dph.runs.evaluation_stage import evaluate_stage, set_verifier
from dph.runs.plan import RunPlan, open_plan
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import stages_of
from dph.runs.stage_costs import run_cost
from dph.runs.verifier_use import comparer
from dph.runs.written_models import interpolated
from dph.tasks.agreement import Classes, largest_class
from lab.quickstart.recipes import THREADS, world_tables
from lab.quickstart.stages import StageClock
from lab.study.candidates import size_of
from lab.study.rows import RunRow, Score, note_prepared, scores_of, write_row_file
from lab.study.settings import BASE, BudgetSettings, at_temperature
from lab.study.sites import RunRequest, made_sizes, own_recipe, world_recipe
from lab.worlds import WorldKind, world_kind


def majorities(plan: RunPlan, samples: pa.Table, count: int) -> Iterator[Score]:
    """Accuracy of the vote of the first ``count`` samples to each problem: maj@count of each set.

    The vote is the result that most of them have, of equal ones the first; a problem without a
    result is not right. Answers are compared as ``self_consistency.agreement`` says, else by the
    set's verifier.

    Raises:
        SettingsError: the verifier cannot compare answers, or they are trajectories.
    """
    agreement = plan.recipe.self_consistency.agreement
    if plan.recipe.environment.path is not None:
        raise SettingsError(
            f"budget.votes = {count}: an evaluation keeps whole trajectories in the [environment] "
            f"{plan.recipe.environment.path!r}, and not the answers that they came to: leave out "
            "budget.votes"
        )
    for name, settings in plan.recipe.data.sets.items():
        rows = samples.filter((pc.field("set") == name) & (pc.field("sample_index") >= 0))
        groups = defaultdict[str, list[dict[str, Any]]](list)
        for row in rows.sort_by("sample_index").to_pylist():
            groups[row["problem_id"]].append(row)
        problems = plan.sets[name]
        asked = [groups[problem.problem_id][:count] for problem in problems]
        texts = [[r["text"] if r["finished"] else None for r in group] for group in asked]
        with ExitStack() as stack:
            compared = replace(plan, verifier=set_verifier(plan, settings, stack))
            found = stack.enter_context(comparer(compared, agreement))
            classes = found.classes(problems, texts)
        right = [_is_voted_right(*both) for both in zip(classes, asked, strict=True)]
        yield Score(
            set=name, metric="maj_at_k", k=count, value=fmean(right), problems=len(problems)
        )


_ANOTHER_TEMPERATURE = ("mean", "pass_at_k")
"""Metrics that depend on the temperature of the answers, and need no other model's."""


def at_other_temperatures(
    plan: RunPlan, place: Path, model: Path, budget: BudgetSettings
) -> Iterator[Score]:
    """mean@1, Pass@k and maj@k of a model at each of the budget's temperatures.

    Their samples are kept in ``place``, in a directory for each.

    Raises:
        DphError: as of ``evaluate_stage``.
    """
    evaluate = plan.recipe.evaluate
    for temperature in budget.temperatures:
        asked = evaluate.model_copy(update={"temperature": temperature, "token_details": 0})
        there = replace(plan, recipe=plan.recipe.model_copy(update={"evaluate": asked}))
        directory = place / f"temperature_{temperature:g}"
        document = evaluate_stage(there, directory, Silent(), model=model)
        found = [s for s in scores_of(document) if s.metric in _ANOTHER_TEMPERATURE]
        for score in (*found, *voted(there, directory, budget)):
            yield replace(score, metric=at_temperature(score.metric, temperature))


def voted(plan: RunPlan, evaluated: Path, budget: BudgetSettings) -> Iterator[Score]:
    """The votes of an evaluation's samples, where the budget asks for them."""
    if count := budget.votes:
        yield from majorities(plan, read_samples(EvaluationDirectory(evaluated).samples), count)


def _is_voted_right(classes: Classes, rows: Sequence[Mapping[str, Any]]) -> bool:
    voted = largest_class(classes)
    return voted is not None and rows[classes.index(voted)]["outcome"] == Outcome.CORRECT.value


_ANY_METHOD = "grpo"
"""The base model's evaluation and its pools do not depend on the method."""


@dataclass(frozen=True)
class _Work:
    """The payload of a job, and where it happens."""

    payload: Mapping[str, Any]

    @property
    def directory(self) -> Path:
        return Path(self.payload["work"])

    @property
    def seed(self) -> int:
        return int(self.payload["seed"])

    @property
    def clock(self) -> StageClock:
        return StageClock(make_directory(Path(self.payload["costs"])) / f"{self.run}.json")

    @property
    def run(self) -> str:
        return str(self.payload["run"])

    @cached_property
    def budget(self) -> BudgetSettings:
        """The study's budget."""
        return BudgetSettings(**self.payload["budget"])

    @property
    def kind(self) -> WorldKind:
        return world_kind(self.payload["site"]["task"], self.payload["site"]["edition"])

    @cached_property
    def world(self) -> Any:
        """The world, built where it is not there; checked once a job."""
        sizes = made_sizes(self.kind.sizes, self.payload["site"]["sizes"])
        return self.kind.build(self.directory / "world", seed=self.seed, sizes=sizes)

    def recipe(self, asked: RunRequest, *, name: str, pool: str) -> Recipe:
        """The recipe of a run; a world is built where it is not there."""
        pool_place, site = self.directory / pool, self.payload["site"]
        if site["recipe"] is not None:
            path = Path(site["recipe"])
            return own_recipe(asked, path, name=name, pool=pool_place, seed=self.seed)
        return world_recipe(
            asked,
            world_tables(self.kind, self.world, asked.method, self.directory / "stores"),
            size_of(self.budget),
            name=name,
            directory=self.directory,
            pool=pool_place,
            seed=self.seed,
        )

    def besides(self, plan: RunPlan, evaluated: Path, model: Path) -> Iterator[Score]:
        """Scores besides those of the evaluation: votes, and other temperatures."""
        yield from voted(plan, evaluated, self.budget)
        yield from at_other_temperatures(plan, evaluated, model, self.budget)


def execute(payload: Mapping[str, Any]) -> None:
    """Do a job. What a killed one left behind is gone on from.

    Raises:
        DphError: as the stages do.
    """
    torch.set_num_threads(THREADS)
    work = _Work(payload)
    if payload["kind"] == "prepare":
        with held(work.directory / ".prepare.lock"):
            _prepare(work)
    else:
        with held(work.directory / f".{payload['training']}.lock"):
            _run(work)


def _prepare(work: _Work) -> None:
    """World, base model, its evaluation, and every pool that a run will read."""
    site, clock = work.payload["site"], work.clock
    asked = RunRequest(method=_ANY_METHOD, settings=work.payload["settings"])
    if site["recipe"] is None:
        with clock.stage("world"):
            world = work.world
        with clock.stage("base model"):
            work.kind.train_base_model(
                world,
                work.directory / "base_model",
                seed=work.seed,
                steps=site["base_steps"] or work.kind.base_steps,
            )
    recipe = work.recipe(asked, name=BASE, pool="pool")
    with open_plan(recipe, work.directory) as plan, clock.stage("evaluate"):
        place, initial = plan.directory.base.path, plan.initial
        document = evaluate_stage(plan, place, Silent(), model=initial)
        besides = tuple(work.besides(plan, place, initial))
    _require_same_base(work, directory_fingerprint(initial))
    for name, settings in work.payload["pools"].items():
        asked = RunRequest(method=_ANY_METHOD, settings={**work.payload["settings"], **settings})
        with (
            open_plan(work.recipe(asked, name=BASE, pool=name), work.directory) as plan,
            clock.stage("presample"),
        ):
            presample_stage(plan, Silent())
    if not work.payload["scored"]:
        _write_row(
            work,
            document,
            initial,
            rollouts=0,
            stored=0,
            learning_rate=None,
            steps=0,
            model=plan.recipe.model,
            besides=besides,
        )
    note_prepared(work.directory, work.run, list(work.payload["pools"]))


def _require_same_base(work: _Work, made: str) -> None:
    """Refuse a base model that is not the one of the rows that are there."""
    known = work.payload["base_sha256"]
    if known not in (None, made):
        place = f"seed {work.seed} of {work.payload['site']['name']}"
        raise DataError(
            f"{place}: its rows began with the base model {known}, and this machine made {made}; "
            f"different processors round differently. Copy work/ from where the rows were made, or "
            "give another directory (--out)"
        )


def _run(work: _Work) -> None:
    """Train, interpolate where that was asked for, evaluate, and leave the scores."""
    payload, clock = work.payload, work.clock
    asked = RunRequest(**payload["asked"])
    recipe = work.recipe(asked, name=payload["training"], pool=payload["pool"] or "pool")
    directory = work.directory / payload["training"]
    with open_plan(recipe, directory) as plan:
        with clock.stage("train"):
            trained = stages_of(plan.recipe).train(plan, Silent())
        if trained.stopped:
            raise KeyboardInterrupt
        model, place = trained.checkpoint, directory
        if payload["interpolate"] is not None:
            with clock.stage("interpolate"):
                model = interpolated(directory, payload["interpolate"])
            place = directory / f"evaluation_{payload['interpolate']:g}"
        with clock.stage("evaluate"):
            document = evaluate_stage(
                plan, place, Silent(), model=model, base=RunDirectory(work.directory).base.path
            )
            besides = tuple(work.besides(plan, place, model))
        _write_row(
            work,
            document,
            plan.initial,
            rollouts=run_cost(directory, None).answers or 0,
            stored=_presampled(plan) if payload["pool"] is not None else 0,
            learning_rate=recipe.train.learning_rate,
            steps=recipe.train.steps,
            model=plan.recipe.model,
            besides=besides,
        )


def _presampled(plan: RunPlan) -> int:
    """Answers that pre-sampling drew: those that decide, and a final one for each problem."""
    return len(plan.problems) * (plan.recipe.presample.samples + 1)


def _write_row(
    work: _Work,
    document: Mapping[str, Any],
    initial: Path,
    *,
    rollouts: int,
    stored: int,
    learning_rate: float | None,
    steps: int,
    model: ModelSettings,
    besides: tuple[Score, ...] = (),
) -> None:
    payload = work.payload
    asked = payload.get("asked")
    row = RunRow(
        run=work.run,
        world=payload["site"]["name"],
        edition=payload["site"]["edition"],
        seed=work.seed,
        method=asked["method"] if asked else BASE,
        strength=asked["strength"] if asked else None,
        learning_rate=learning_rate,
        interpolate=payload.get("interpolate"),
        steps=steps,
        rule_sha256=payload.get("rule"),
        samples=document["samples"],
        rollouts=rollouts,
        stored=stored,
        scores=(*scores_of(document), *besides),
        base_sha256=directory_fingerprint(initial),
        commit=code_commit(),
        versions=versions(computed_by(model.device, model.kernels)),
    )
    write_row_file(Path(payload["rows"]), row)
