"""Every setting of a recipe: its type, range, default and meaning.

The descriptions are what ``dph recipe show`` prints, so they are one line each.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from dph.recipe.advantages import ADVANTAGES
from dph.recipe.data import DataSettings, EvaluationSettings, wrong_during
from dph.recipe.environment import EnvironmentSettings
from dph.recipe.methods import METHODS
from dph.recipe.objective import ObjectiveSettings
from dph.recipe.section import Count, Section
from dph.recipe.store_use import stores_in_use, with_one_file, wrong_stores
from dph.recipe.stores import StoreSettings
from dph.recipe.tables import (
    ConsolidationSettings,
    ModelSettings,
    PresamplingSettings,
    SamplingSettings,
    SelfConsistencySettings,
    TrackingSettings,
    TrainingSettings,
    TRLSettings,
    VerlSettings,
    VLLMSettings,
)
from dph.recipe.terms import BASE_CORRECT

_SUBSETS_OF_K = ("pass_at_k", "pkpo")
"""Advantages that look at k samples of a group at a time."""


class Recipe(Section):
    """A whole run."""

    name: str = Field(
        "run", pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", description="name of the run's directory"
    )
    method: str = Field(
        "dph_f",
        description=f"{', '.join(METHODS)}: plain settings, which the recipe may override",
    )
    seed: Count = Field(0, description="of everything random")
    notes: str = Field("", description="free text, such as sources of the numbers and measurements")
    model: ModelSettings
    data: DataSettings
    environment: EnvironmentSettings = EnvironmentSettings()
    sampling: SamplingSettings = SamplingSettings()
    vllm: VLLMSettings = VLLMSettings()
    presample: PresamplingSettings = PresamplingSettings()
    stores: dict[str, StoreSettings] = Field(
        {}, description="answers of the initial policy with their distributions, by name"
    )
    objective: ObjectiveSettings = ObjectiveSettings()
    self_consistency: SelfConsistencySettings = SelfConsistencySettings()
    train: TrainingSettings = TrainingSettings()
    consolidation: ConsolidationSettings = ConsolidationSettings()
    evaluate: EvaluationSettings = EvaluationSettings()
    track: TrackingSettings = TrackingSettings()
    trl: TRLSettings = TRLSettings()
    verl: VerlSettings = VerlSettings()

    @model_validator(mode="before")
    @classmethod
    def _one_file_serves_all_stores(cls, data: Any) -> Any:
        stores = data.get("stores") if isinstance(data, dict) else None
        return data if not isinstance(stores, dict) else {**data, "stores": with_one_file(stores)}

    @field_validator("method")
    @classmethod
    def _method_is_known(cls, name: str) -> str:
        if name not in METHODS:
            near = get_close_matches(name, METHODS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            known = ", ".join(map(repr, METHODS))
            raise ValueError(f"should be one of {known}, got {name!r}{hint}")
        return name

    @model_validator(mode="after")
    def _overlong_buffer_is_a_token_or_more(self) -> Self:
        share, limit = self.objective.overlong_buffer, self.answer_tokens
        if share > 0 and round(share * limit) < 1:
            key = "sampling.max_tokens" if self.environment.path is None else "environment.tokens"
            raise ValueError(
                f"objective.overlong_buffer={share} of {key}={limit} is not even one "
                "token; set it to 0 to have no overlong penalty"
            )
        return self

    @model_validator(mode="after")
    def _groups_are_large_enough(self) -> Self:
        advantage, samples = self.objective.advantage, self.train.samples_per_problem
        if advantage.chosen not in _SUBSETS_OF_K:
            return self
        k, baseline = advantage.parameters["k"], advantage.parameters.get("baseline")
        needed = k + (advantage.chosen == "pass_at_k" or baseline == "leave_one_out")
        if samples < needed:
            raise ValueError(
                f"objective.advantage.k={k} of {advantage.chosen} needs at least {needed} samples "
                f"a problem, got train.samples_per_problem={samples}"
            )
        return self

    @model_validator(mode="after")
    def _stores_fit(self) -> Self:
        if wrong := wrong_stores(self.stores, self.objective, self.self_consistency):
            raise ValueError(wrong)
        return self

    @model_validator(mode="after")
    def _environment_fits(self) -> Self:
        if wrong := _wrong_environment(self):
            raise ValueError(wrong)
        return self

    @model_validator(mode="after")
    def _what_is_measured_during_training_is_there(self) -> Self:
        if wrong := wrong_during(self.evaluate, self.data.sets, steps=self.train.steps):
            raise ValueError(wrong)
        return self

    @model_validator(mode="after")
    def _unlabelled_problems_fit(self) -> Self:
        some, all_ = self.self_consistency.problems_per_step, self.train.problems_per_step
        if some > all_:
            raise ValueError(
                f"self_consistency.problems_per_step={some} are problems of the rollout: at most "
                f"train.problems_per_step={all_} are allowed"
            )
        return self

    @model_validator(mode="after")
    def _consolidation_fits(self) -> Self:
        settings = self.consolidation
        if settings.active and settings.store not in self.stores:
            known = ", ".join(self.stores) or "none"
            raise ValueError(
                f"consolidation.samples = {settings.samples!r} does not name a store; "
                f"[stores.<name>] exists for: {known}"
            )
        return self

    @model_validator(mode="after")
    def _consolidation_has_weights_to_train(self) -> Self:
        if self.consolidation.active and self.model.adapter is not None:
            raise ValueError(
                f"consolidation.updates={self.consolidation.updates} continues from whole "
                f"weights, and [model.adapter] trains none: `dph export` the run and consolidate "
                f"from there, "
                "or train without an adapter"
            )
        return self

    @model_validator(mode="after")
    def _something_is_learnt_from(self) -> Self:
        if not self.train.problems_per_step and not self.objective.rehearses:
            raise ValueError(
                "train.problems_per_step = 0 draws nothing, and no anchor rehearses anything, so "
                "nothing can be learnt"
            )
        return self

    @model_validator(mode="after")
    def _unlabelled_problems_are_not_asked_for_base_counts(self) -> Self:
        if self.self_consistency.active and BASE_CORRECT in self.objective.advantage_reads():
            raise ValueError(
                f"objective.advantage.kind={self.objective.advantage.kind!r} reads how many "
                "answers of the initial policy were right, which is unknown for unlabelled "
                "problems: set self_consistency.problems_per_step = 0, got "
                f"{self.self_consistency.problems_per_step}, or choose another advantage"
            )
        return self

    @property
    def answer_tokens(self) -> int:
        """Tokens of an answer at most: of a turn, or of a trajectory with its results."""
        acts = self.environment.path is not None
        return self.environment.tokens if acts else self.sampling.max_tokens

    @property
    def labelled_per_step(self) -> int:
        """Problems of a rollout that come from the training problems."""
        return self.train.problems_per_step - self.self_consistency.problems_per_step

    @property
    def used_stores(self) -> dict[str, StoreSettings]:
        """The stores that an active anchor or the consensus reads; no other one is made."""
        used = stores_in_use(self.objective, self.self_consistency)
        return {name: store for name, store in self.stores.items() if name in used}

    @property
    def presampling_seed(self) -> int:
        """The seed of the pool's samples: ``presample.seed``, or else that of the recipe."""
        own = self.presample.seed
        return self.seed if own is None else own

    @property
    def needs_pool(self) -> bool:
        """Whether training reads a pool, as far as is known without user-defined code."""
        advantage = ADVANTAGES.get(self.objective.advantage.chosen)
        return (
            self.train.problems == "exploration"
            or self.objective.rehearses_pool
            or (advantage is not None and BASE_CORRECT in advantage.reads)
        )

    def reads_base_counts(self) -> bool:
        """Whether the advantage reads how many answers of the initial policy were right.

        Raises:
            SettingsError: a user-defined advantage cannot be imported.
        """
        return BASE_CORRECT in self.objective.advantage_reads(self.data.modules)

    def reads_pool(self) -> bool:
        """Whether training reads a pool, user-defined advantages included.

        Raises:
            SettingsError: a user-defined advantage cannot be imported.
        """
        return self.needs_pool or self.reads_base_counts()


# Trajectories and the parts of a recipe that do not know them yet.


def _wrong_environment(recipe: Recipe) -> str:
    """The parts of a recipe that do not know trajectories; '' if there are none."""
    settings, turn = recipe.environment, recipe.sampling.max_tokens
    if settings.path is None:
        return ""
    if settings.most_characters < settings.result_characters:
        return (
            f"environment.most_characters={settings.most_characters} is below "
            f"environment.result_characters={settings.result_characters}"
        )
    longest = max(turn, recipe.evaluate.max_tokens or 0)
    if settings.tokens < longest:
        return (
            f"environment.tokens={settings.tokens} has no room for one turn of {longest} tokens "
            "(sampling.max_tokens, evaluate.max_tokens)"
        )
    refused = [f"{key} = {value!r}" for key, value in _without_turns(recipe)]
    return (
        f"[environment] is not possible with {', '.join(refused)}: these do not know trajectories "
        "yet; leave them out, or leave out environment.path"
        if refused
        else ""
    )


def _without_turns(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Settings of a recipe that ask for a part that knows answers of one turn alone."""
    data = recipe.data
    if recipe.sampling.engine != "torch":
        yield "sampling.engine", recipe.sampling.engine
    if recipe.self_consistency.active:
        yield "self_consistency.problems_per_step", recipe.self_consistency.problems_per_step
    if recipe.consolidation.active:
        yield "consolidation.updates", recipe.consolidation.updates
    for name in recipe.used_stores:
        yield f"stores.{name}", recipe.stores[name].targets
    if data.shots is not None:
        yield "data.shots.count", data.shots.count
    if data.styles is not None:
        yield "data.styles", data.styles
    for name, chosen in data.sets.items():
        for key in ("verifier", "styles"):
            if (value := getattr(chosen, key)) is not None:
                yield f"data.sets.{name}.{key}", value
