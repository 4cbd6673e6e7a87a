"""Jobs, each in a separate process: prepare a world of a seed, or make one run on it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from dph._base.files import held, make_directory, read_json
from dph._base.provenance import code_commit, versions
from dph.errors import DataError
from dph.model.hub import resolve_names
from dph.model.loading import computed_by
from dph.model.policies import directory_fingerprint
from dph.recipe import ModelSettings, Recipe
from dph.runs.directory import EvaluationDirectory, RunDirectory
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.job import RunJob
from dph.runs.prepare import prepare
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import stages_of
from dph.runs.stage_costs import run_cost
from dph.runs.written_models import interpolated
from lab.study.costs import StageClock
from lab.study.rows import RunRow, Score, note_prepared, scores_of, write_row_file
from lab.study.settings import BASE, BudgetSettings
from lab.study.sites import THREADS, RunRequest, made_sizes, own_recipe, world_recipe, world_tables
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

    def earlier_steps(self, asked: RunRequest) -> range:
        """The steps before the last one after which a run is scored."""
        every = self.budget.score_every
        return range(every, asked.steps, every) if every and asked.steps else range(0)

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
            device=self.payload["device"],
        )


def execute(payload: Mapping[str, Any]) -> None:
    """Do a job. What a killed one left behind is gone on from."""
    torch.set_num_threads(THREADS)
    work = _Work(payload)
    if payload["site"]["recipe"] is None:
        _require_same_processor(work)
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
        with prepare(recipe, work.directory, stage="presample") as plan, clock.stage("presample"):
            presample_stage(plan, Silent())
    if not work.payload["scored"]:
        _write_row(
            work,
            [*scores_of(document)],
            document["samples"],
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


def _require_same_processor(work: _Work) -> None:
    """Refuse a seed whose rows another kind of processor made."""
    here, known = computed_by(work.payload["device"]), work.payload["processor"]
    if known not in (None, here):
        raise DataError(
            f"seed {work.seed} of {work.payload['site']['name']}: its rows were made on {known}, "
            f"this is {here}: name seeds of this kind of processor by --only"
        )


def _run(work: _Work) -> None:
    """Train, interpolate if asked for, evaluate, and leave the scores."""
    payload, clock = work.payload, work.clock
    asked, weight = RunRequest(**payload["asked"]), payload["interpolate"]
    directory = work.directory / payload["training"]
    scores = [
        score
        for step in work.earlier_steps(asked)
        for score in scores_of(_at_checkpoint(work, asked, step), step)
    ]
    with _plan(work, asked) as plan:
        model, place = _trained(work, plan), directory
        if weight is not None:
            # The trained end belongs to the front of the weights, earlier checkpoints do not.
            ends = work.budget.score_every is not None
            end = plan.recipe.train.steps
            scores = [*scores_of(_evaluated(work, plan, place, model), end)] if ends else []
            layers = payload["layers"] and range(*payload["layers"])
            with clock.stage("interpolate"):
                model = interpolated(directory, weight, step=payload["step"], layers=layers)
            place = directory / f"evaluation_{model.name}"
        document = _evaluated(work, plan, place, model)
        _write_row(
            work,
            [*scores_of(document), *scores],
            document["samples"],
            plan.initial,
            rollouts=run_cost(directory, None).answers or 0,
            stored=_presampled(plan) if payload["pool"] is not None else 0,
            learning_rate=plan.recipe.train.learning_rate,
            steps=plan.recipe.train.steps,
            model=plan.recipe.model,
        )


@contextmanager
def _plan(work: _Work, asked: RunRequest) -> Iterator[RunJob]:
    payload = work.payload
    recipe = work.recipe(asked, name=payload["training"], pool=payload["pool"] or "pool")
    with prepare(resolve_names(recipe).recipe, work.directory / payload["training"]) as plan:
        yield plan


def _at_checkpoint(work: _Work, asked: RunRequest, step: int) -> dict[str, Any]:
    """The evaluation after ``step`` steps: training goes on from there, to the same bits."""
    place = EvaluationDirectory(work.directory / work.payload["training"] / f"step_{step}")
    if place.evaluation.exists():
        return dict(read_json(place.evaluation))
    with _plan(work, replace(asked, steps=step)) as plan:
        return _evaluated(work, plan, place.path, _trained(work, plan))


def _trained(work: _Work, plan: RunJob) -> Path:
    """The checkpoint after the recipe's last step."""
    with work.clock.stage("train"):
        trained = stages_of(plan.recipe).train(plan, Silent())
    if trained.stopped:
        raise KeyboardInterrupt
    if trained.step != plan.recipe.train.steps:
        raise DataError(
            f"{plan.directory.path} is at step {trained.step}, and step {plan.recipe.train.steps} "
            "was not scored: remove the directory to train again"
        )
    return trained.checkpoint


def _evaluated(work: _Work, plan: RunJob, place: Path, model: Path) -> dict[str, Any]:
    base = RunDirectory(work.directory).base.path
    with work.clock.stage("evaluate"):
        return evaluate_stage(plan, place, Silent(), model=model, base=base)


def _presampled(plan: RunJob) -> int:
    """Answers that pre-sampling drew: those that decide, and a final one for each problem."""
    return len(plan.problems) * (plan.recipe.presample.samples + 1)


def _write_row(
    work: _Work,
    scores: Sequence[Score],
    samples: int,
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
        samples=samples,
        rollouts=rollouts,
        stored=stored,
        scores=tuple(scores),
        base_sha256=directory_fingerprint(initial),
        commit=code_commit(),
        versions=versions(computed_by(model.device, model.kernels)),
    )
    write_row_file(Path(payload["rows"]), row)
