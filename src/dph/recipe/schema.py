"""Every setting of a recipe: its type, range, default and meaning.

The descriptions are what ``dph recipe show`` prints, so they are one line each.
"""

from collections.abc import Iterator
from dataclasses import fields
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dph._base.import_path import is_import_path
from dph.recipe.data import DataSettings, EvaluationSettings, wrong_during
from dph.recipe.methods import METHODS
from dph.recipe.objective import ObjectiveSettings
from dph.recipe.section import Count, Phrase, Positive, Section
from dph.recipe.tables import (
    CACHE_TOKENS,
    LIGER,
    MAX_ROWS,
    ModelSettings,
    PresamplingSettings,
    SamplingSettings,
    SelfConsistencySettings,
    TrackingSettings,
    TrainingSettings,
    VerlSettings,
    VLLMSettings,
)
from dph.recipe.terms import ADVANTAGES
from dph.tasks.environments import EpisodeLimits

SQL, CODE = "sql", "code"
"""Environments that come with the package (``sql_environment``, ``code_environment``)."""
_LIMITS = EpisodeLimits()


class EnvironmentSettings(Section):
    """A class whose tools the policy calls in turns before it answers."""

    path: str | None = Field(
        None,
        description="sql, code, verifiers:PACKAGE, or your module:Class with the tools; default: "
        "none, answers of one turn",
    )
    form: Literal["json", "plain"] = Field(
        "json", description="form of calls: json as chat templates write it, or plain lines CALL"
    )
    submits: str = Field(
        "",
        description="tool that ends a trajectory with its argument as the answer; default: the "
        "answer is the text of the turn that calls no tool",
    )
    hidden: Annotated[tuple[Phrase, ...], Field(strict=False)] = Field(
        (), description="columns of problems that reset does not get, such as the gold answer"
    )
    columns: dict[str, bool | int | float | str] = Field(
        {}, description="columns that every reset gets, in addition to those of its problem"
    )
    tokens: Positive = Field(
        4096,
        description="tokens of a trajectory, results of tools included; sampling.max_tokens "
        "limits one turn",
    )
    turns: Positive = Field(_LIMITS.turns, description="turns of the policy in a trajectory")
    calls: Positive = Field(_LIMITS.calls, description="calls of tools in one turn")
    errors: Count = Field(
        _LIMITS.errors, description="failed calls in a trajectory; one more ends it"
    )
    seconds: float = Field(
        _LIMITS.seconds,
        gt=0,
        lt=1e6,
        description="time limit of reset, of a call and of get_reward, each",
    )
    result_characters: Positive = Field(
        _LIMITS.result_characters, description="characters of a result that the policy reads"
    )
    most_characters: Positive = Field(
        _LIMITS.most_characters,
        description="characters of a result; a longer one ends the trajectory",
    )
    memory_bytes: int = Field(
        _LIMITS.memory_bytes, ge=1_000_000, description="memory that the class may take"
    )
    processes: Positive = Field(128, description="trajectories whose processes run at a time")

    @field_validator("path")
    @classmethod
    def _names_a_class(cls, path: str | None) -> str | None:
        if path not in (None, SQL, CODE) and not is_import_path(str(path)):
            raise ValueError(
                f"should be 'sql', 'code' or name a class as 'module:Class', got {path!r}"
            )
        return path

    @model_validator(mode="after")
    def _ours_are_whole(self) -> Self:
        given = [name for name in ("submits", "columns") if getattr(self, name)]
        if self.path in (SQL, CODE) and given:
            raise ValueError(
                f"path={self.path!r} sets {given[0]} itself, got {getattr(self, given[0])!r}"
            )
        return self

    @property
    def limits(self) -> EpisodeLimits:
        return EpisodeLimits(**{each.name: getattr(self, each.name) for each in fields(_LIMITS)})


_SUBSETS_OF_K = ("pass_at_k", "pkpo")
"""Advantages that look at k samples of a group at a time."""


class Recipe(Section):
    """A whole run."""

    name: str = Field(
        "run", pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", description="name of the run's directory"
    )
    method: str = Field(
        "dph_f", description=f"{', '.join(METHODS)}: plain settings, which the recipe may override"
    )
    seed: Count = Field(0, description="seed of all random draws")
    notes: str = Field("", description="free text, such as sources of the numbers and measurements")
    model: ModelSettings
    data: DataSettings
    environment: EnvironmentSettings = EnvironmentSettings()
    sampling: SamplingSettings = SamplingSettings()
    vllm: VLLMSettings = VLLMSettings()
    presample: PresamplingSettings = PresamplingSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    self_consistency: SelfConsistencySettings = SelfConsistencySettings()
    train: TrainingSettings = TrainingSettings()
    evaluate: EvaluationSettings = EvaluationSettings()
    track: TrackingSettings = TrackingSettings()
    verl: VerlSettings = VerlSettings()

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
    def _parts_fit(self) -> Self:
        for wrong in _faults(self):
            raise ValueError(wrong)
        return self

    def on_device(self, *, cuda: bool, bfloat16: bool = True) -> Self:
        """The recipe with ``auto`` decided for a GPU, which may lack ``bfloat16``, or a CPU.

        How many rows a GPU samples at a time stays open: that follows from its free memory.
        """
        narrow = self.model.weights != "float32" or (cuda and bfloat16)
        model = self.model.decided(
            dtype="bfloat16" if narrow else "float32",
            kernels="liger" if cuda and LIGER.is_installed else "torch",
        )
        rows = {} if cuda else {"max_rows": MAX_ROWS, "cache_tokens": CACHE_TOKENS}
        sampling = self.sampling.decided(**rows)
        return self.model_copy(update={"model": model, "sampling": sampling})

    @property
    def answer_tokens(self) -> int:
        """Tokens of an answer at most: of a turn, or of a trajectory with its results."""
        acts = self.environment.path is not None
        return self.environment.tokens if acts else self.sampling.max_tokens

    @property
    def labelled_per_step(self) -> int:
        return self.train.problems_per_step - self.self_consistency.problems_per_step

    @property
    def presampling_seed(self) -> int:
        """The seed of the pool's samples: ``presample.seed``, or else that of the recipe."""
        own = self.presample.seed
        return self.seed if own is None else own

    @property
    def needs_pool(self) -> bool:
        return self.train.problems == "exploration" or self.objective.rehearses_pool


def _faults(recipe: Recipe) -> Iterator[str]:
    """Parts of a recipe that do not fit together."""
    objective, train, answers = recipe.objective, recipe.train, recipe.answer_tokens
    share, advantage = objective.overlong_buffer, objective.advantage
    if share > 0 and round(share * answers) < 1:
        key = "sampling.max_tokens" if recipe.environment.path is None else "environment.tokens"
        yield (
            f"objective.overlong_buffer={share} of {key}={answers} is less than one "
            "token; set it to 0 to turn the overlong penalty off"
        )
    if advantage.chosen in _SUBSETS_OF_K:
        k, baseline = advantage.parameters["k"], advantage.parameters.get("baseline")
        needed = k + (advantage.chosen == "pass_at_k" or baseline == "leave_one_out")
        if train.samples_per_problem < needed:
            yield (
                f"objective.advantage.k={k} of {advantage.chosen} needs at least {needed} samples "
                f"a problem, got train.samples_per_problem={train.samples_per_problem}"
            )
    row = ADVANTAGES.get(advantage.chosen)
    rule = recipe.data.verifier_settings["sql_rule"] if recipe.data.verifier == "sql" else None
    if row and row.counts and rule in ("bird_soft_f1", "cartesian"):
        yield (
            f"data.sql_rule = {rule!r} gives rewards between 0 and 1, and objective.advantage = "
            f"{advantage.chosen!r} counts right answers: choose another of them"
        )
    yield from _faults_with_environment(recipe)
    if wrong := wrong_during(recipe.evaluate, recipe.data.sets, steps=train.steps):
        yield wrong
    some = recipe.self_consistency.problems_per_step
    if some > train.problems_per_step:
        yield (
            f"self_consistency.problems_per_step={some} must be at most "
            f"train.problems_per_step={train.problems_per_step}, which includes them"
        )
    if recipe.model.weights == "nf4" and recipe.sampling.engine != "torch":
        yield (
            'sampling.engine = "vllm" reads whole weights, and model.weights = "nf4" are '
            'others: set sampling.engine = "torch", or model.weights = "bfloat16"'
        )
    if not train.problems_per_step and not objective.rehearses:
        yield (
            "train.problems_per_step = 0 draws nothing, and no anchor rehearses anything, so "
            "nothing can be learnt"
        )


def _faults_with_environment(recipe: Recipe) -> Iterator[str]:
    """Settings of trajectories that do not fit, and parts that only know answers of one turn."""
    settings = recipe.environment
    if settings.path is None:
        return
    if settings.most_characters < settings.result_characters:
        yield (
            f"environment.most_characters={settings.most_characters} is below "
            f"environment.result_characters={settings.result_characters}"
        )
    longest = max(recipe.sampling.max_tokens, recipe.evaluate.max_tokens or 0)
    if settings.tokens < longest:
        yield (
            f"environment.tokens={settings.tokens} has no room for one turn of {longest} tokens "
            "(sampling.max_tokens, evaluate.max_tokens)"
        )
    data, engine = recipe.data, recipe.sampling.engine
    refused = [] if engine == "torch" else [f"sampling.engine = {engine!r}"]
    if (shots := data.shots) is not None:
        refused.append(f"data.shots.count = {shots.count}" if shots.count else "data.shots.file")
    own = {"data.styles": data.styles}
    for name, of in data.sets.items():
        own |= {f"data.sets.{name}.verifier": of.verifier, f"data.sets.{name}.styles": of.styles}
    refused += [f"{key} = {value!r}" for key, value in own.items() if value is not None]
    if refused:
        yield (
            f"[environment] is not possible with {', '.join(refused)}: these do not know "
            "trajectories yet; leave them out, or leave out environment.path"
        )
