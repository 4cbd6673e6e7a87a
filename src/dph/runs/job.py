"""A job: the recipe of a run and its inputs, resolved and checked before a stage begins."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformers import PreTrainedModel

from dph.model.policies import is_adapter, load_policy, sharing
from dph.recipe import ModelSettings, Recipe
from dph.records import Problem
from dph.runs.directory import RunDirectory
from dph.runs.presample.manifest import Rule, ValueSource
from dph.runs.prompts import RunPrompts
from dph.runs.train.collect import SelfConsistency
from dph.runs.training_digest import TrainingKey
from dph.tasks.verifiers.base import Verifier, verifier_identity

Style = Callable[[str], str | None]
"""The name of an answer's style, if it has one."""


class Policies:
    """The models of a run, whose initial weights in ``directory`` are read once."""

    def __init__(self, directory: Path, settings: ModelSettings) -> None:
        self._directory, self._settings = directory, settings
        self._initial: PreTrainedModel | None = None

    def initial(self) -> PreTrainedModel:
        """The initial policy; it must not be changed."""
        if self._initial is None:
            self._initial = self._load(self._directory)
        return self._initial

    def of(
        self, path: Path, *, with_initial: bool = False, seed: int | None = None
    ) -> PreTrainedModel:
        """The model in ``path``: the initial one, an adapter on its weights, or another.

        Another one is in memory together with the initial one only ``with_initial``.
        """
        if is_adapter(path):
            return self._load(path, whole=sharing(self.initial()))
        if path.resolve() == self._directory.resolve():
            return self.initial()
        if not with_initial:
            self.release()
        return self._load(path, seed=seed)

    def trained(self, checkpoint: Path | None, *, seed: int, with_initial: bool) -> PreTrainedModel:
        """The policy that training changes, from ``checkpoint`` or from the initial weights.

        Without an adapter it is the initial model itself; ``with_initial`` it is a copy.
        """
        if checkpoint is not None:
            return self.of(checkpoint, with_initial=with_initial, seed=seed)
        if self._settings.adapter is not None:
            return self._load(self._directory, whole=sharing(self.initial()), seed=seed)
        if with_initial:
            return copy.deepcopy(self.initial())
        policy = self.initial()
        self.release()
        return policy

    def release(self) -> None:
        """Give the memory of the initial policy back."""
        self._initial = None

    def _load(
        self, path: Path, *, whole: PreTrainedModel | None = None, seed: int | None = None
    ) -> PreTrainedModel:
        return load_policy(path, self._settings, initial=self._directory, whole=whole, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSet:
    """An evaluation set: its problems, its verifier, and a classifier of styles if it has one."""

    name: str
    problems: tuple[Problem, ...]
    verifier: Verifier
    style: Style | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The newest checkpoint of a run, the steps that it has done, and whether they are all."""

    checkpoint: Path | None = None
    step: int = 0
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class RunJob:
    """A recipe in a run directory, with its inputs as they were read.

    Attributes:
        recipe: resolved, with ``auto`` of the device and of ``data.chat`` decided.
        directory: of the run.
        initial: the directory of the initial policy.
        policies: the initial policy and the models that are made from it.
        prompts: from problems to tokens.
        problems: of training, without the recipe's examples.
        sets: the evaluation sets that the job reads, by name.
        self_consistency: unlabelled prompts and their rewards, if training has some.
        verifier: of training.
        style: classifier of the styles of answers, if there is one.
        key: of training.
        resumed: the state of training; the default for a job without that stage.
        accept_verifier: whether the run may continue with another version of its verifier.
    """

    recipe: Recipe
    directory: RunDirectory
    initial: Path
    policies: Policies
    prompts: RunPrompts
    problems: tuple[Problem, ...]
    sets: Mapping[str, PreparedSet]
    self_consistency: SelfConsistency | None
    verifier: Verifier
    style: Style | None
    key: TrainingKey
    resumed: Resumed = Resumed()
    accept_verifier: bool = False

    @cached_property
    def needs_pool(self) -> bool:
        """True if training reads a pool."""
        return self.recipe.needs_pool

    @cached_property
    def pool(self) -> Path:
        """The directory of the pool."""
        return self.directory.pool(self.recipe)

    @cached_property
    def rule(self) -> Rule:
        """Rule by which the pool is split."""
        presample = self.recipe.presample
        return Rule(
            threshold=presample.threshold, wrong_final=presample.wrong_final, keep=presample.keep
        )

    @cached_property
    def grading(self) -> ValueSource:
        """Inputs that decide the verdicts of the pool."""
        return ValueSource.of(verifier_identity(self.verifier))

    def training_key(self) -> str:
        """The digest that a checkpoint names: of everything that decides its weights."""
        return self.key.digest()
