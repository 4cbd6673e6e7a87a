"""Jobs, each in a separate process: prepare a world of a seed, or make one run on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from dph._base.files import held, make_directory
from dph._base.provenance import code_commit, versions
from dph.errors import DataError
from dph.model.hub import resolve_names
from dph.model.loading import computed_by
from dph.model.policies import directory_fingerprint
from dph.recipe import ModelSettings, Recipe
from dph.runs.directory import RunDirectory
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.job import RunJob
from dph.runs.prepare import prepare
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import stages_of
from dph.runs.stage_costs import run_cost
from dph.runs.written_models import interpolated
from lab.study.costs import StageClock
from lab.study.rows import RunRow, note_prepared, scores_of, write_row_file
from lab.study.settings import BASE, BudgetSettings
from lab.study.sites import (
    THREADS,
    RunRequest,
    made_sizes,
    own_recipe,
    world_recipe,
    world_tables,
)
from lab.worlds import WorldKind, world_kind

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
        return world_kind(self.payload["site"]["task"])

    @cached_property
    def world(self) -> Any:
        """The world, built where it is not there; checked once a job."""
        sizes = made_sizes(self.kind.sizes, self.payload["site"]["sizes"])
        return self.kind.build(self.directory / "world", seed=self.seed, sizes=sizes)

    def recipe(self, asked: RunRequest, *, name: str, pool: str) -> Recipe:
        """The recipe of a run; a world is built where it is not there."""
        site, place = self.payload["site"], self.directory / pool
        if site["recipe"] is not None:
            return own_recipe(asked, Path(site["recipe"]), name=name, pool=place, seed=self.seed)
        return world_recipe(
            asked,
            world_tables(self.kind, self.world, asked.method),
            self.budget,
            name=name,
            directory=self.directory,
            pool=place,
            seed=self.seed,
        )


def execute(payload: Mapping[str, Any]) -> None:
    """Do a job. What a killed one left behind is gone on from."""
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
    recipe = resolve_names(work.recipe(asked, name=BASE, pool="pool")).recipe
    with prepare(recipe, work.directory, stage="evaluate") as plan, clock.stage("evaluate"):
        place, initial = plan.directory.base.path, plan.initial
        document = evaluate_stage(plan, place, Silent(), model=initial)
    _require_same_base(work, directory_fingerprint(initial))
    for name, settings in work.payload["pools"].items():
        asked = RunRequest(method=_ANY_METHOD, settings={**work.payload["settings"], **settings})
        recipe = resolve_names(work.recipe(asked, name=BASE, pool=name)).recipe
        with (
            prepare(recipe, work.directory, stage="presample") as plan,
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
    recipe = resolve_names(recipe).recipe
    directory = work.directory / payload["training"]
    with prepare(recipe, directory) as plan:
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
        _write_row(
            work,
            document,
            plan.initial,
            rollouts=run_cost(directory, None).answers or 0,
            stored=_presampled(plan) if payload["pool"] is not None else 0,
            learning_rate=recipe.train.learning_rate,
            steps=recipe.train.steps,
            model=plan.recipe.model,
        )


def _presampled(plan: RunJob) -> int:
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
) -> None:
    payload = work.payload
    asked = payload.get("asked")
    row = RunRow(
        run=work.run,
        world=payload["site"]["name"],
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
        scores=tuple(scores_of(document)),
        base_sha256=directory_fingerprint(initial),
        commit=code_commit(),
        versions=versions(computed_by(model.device, model.kernels)),
    )
    write_row_file(Path(payload["rows"]), row)
