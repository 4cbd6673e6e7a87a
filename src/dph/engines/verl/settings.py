"""The group ``dph`` of a verl configuration, validated by the package's own settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from omegaconf import DictConfig, OmegaConf
from pydantic import ValidationError, model_validator

from dph.engines.engine_objective import engine_objective
from dph.errors import SettingsError
from dph.recipe import (
    DataSettings,
    ObjectiveSettings,
    PresamplingSettings,
    TrainingSettings,
)
from dph.recipe.objective import SHORTHAND
from dph.recipe.section import Count, FilePath, Positive, Section
from dph.runs.presample.manifest import Rule
from dph.tasks.verifiers import Verifier, make_verifier

S = TypeVar("S", bound=Section)

_BESIDE = (*SHORTHAND, "reduction", "overlong_buffer", "overlong_penalty")
"""Keys of the group that are keys of the objective."""

REFUSED_VERIFIERS = {
    "math_qwen": (
        "verifier='math_qwen' reads LaTeX with sympy, which takes antlr4 4.11 only, and verl's "
        "hydra takes 4.9 only: use 'math'"
    )
}
"""Those that would grade wrong next to verl, and why."""

STRATEGIES = ("fsdp", "fsdp2")
"""verl's training engines that rehearse."""

PRECISIONS = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp32": "float32",
    "float32": "float32",
}
"""Names of dtypes in verl, and in a pool's manifest."""


class SharedSettings(Section):
    """Settings of both pre-sampling and training; config/dph_shared.yaml explains them."""

    pool: FilePath
    seed: Count = 0
    verifier: str = "exact"
    verifier_workers: Positive = 1
    verifier_timeout: float = 5.0
    databases: FilePath | None = None
    sql_rule: str = "bird"
    ground_truth: str = "answer"
    chat: bool = True
    system_prompt: str = ""
    environment: FilePath | None = None
    seed_requests: bool = True
    overlong_buffer: float | None = None
    overlong_penalty: float | None = None

    @model_validator(mode="after")
    def _grading_fits(self) -> Self:
        names = ("verifier", "verifier_workers", "verifier_timeout", "databases", "sql_rule")
        _checked(DataSettings, self, names, train=Path("verl"))
        if self.verifier in REFUSED_VERIFIERS:
            raise ValueError(REFUSED_VERIFIERS[self.verifier])
        if self.system_prompt and not self.chat:
            raise ValueError("system_prompt needs chat=true: a plain prompt is used unchanged")
        return self

    def make_verifier(self) -> Verifier:
        """The verifier, with its workers and limits.

        Raises:
            SettingsError: there is none of that name.
        """
        return make_verifier(
            self.verifier,
            databases=self.databases,
            workers=self.verifier_workers,
            timeout=self.verifier_timeout,
            sql_rule=self.sql_rule,
        )


class LossSettings(SharedSettings):
    """The objective: a recipe's ``[objective]``, whole or by its short names."""

    objective: ObjectiveSettings = ObjectiveSettings()
    method: str | None = None
    divergence: str | None = None
    forward_kl_form: str | None = None
    alpha: float | None = None
    js_definition: bool | None = None
    eta: float | None = None
    advantage_scale: str | None = None
    clip_low: float | None = None
    clip_high: float | None = None
    kl_coefficient: float | None = None
    kl_estimator: str | None = None
    reduction: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _objective_is_read(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = data.get("objective")
        if isinstance(given, ObjectiveSettings):
            given = given.model_dump(exclude_unset=True, exclude_none=True)
        beside = {name: data.get(name) for name in _BESIDE}
        objective = engine_objective(given, method=data.get("method"), beside=beside)
        return {**data, "objective": objective}


class TrainSettings(LossSettings):
    """The group ``dph`` of ``dph.engines.verl.train``."""

    rehearsal_per_step: int = 32
    normalisation: Literal["separate", "rows"] = "separate"
    problems: str = "exploration"

    @model_validator(mode="after")
    def _training_fits(self) -> Self:
        _checked(TrainingSettings, self, ("problems", "rehearsal_per_step"))
        return self

    @property
    def reads_pool(self) -> bool:
        """Whether anything of the pool is trained on."""
        return self.problems == "exploration" or self.objective.rehearses_pool


class PresampleSettings(SharedSettings):
    """The group ``dph`` of ``dph.engines.verl.presample``."""

    samples: int = 8
    threshold: int = 7
    wrong_final: str = "discard"
    chunk_size: Positive = 512

    @model_validator(mode="after")
    def _split_fits(self) -> Self:
        _ = self.rule
        return self

    @property
    def rule(self) -> Rule:
        """Rule for splitting the samples into two sets."""
        checked = _checked(PresamplingSettings, self, ("samples", "threshold", "wrong_final"))
        return Rule(threshold=checked.threshold, wrong_final=checked.wrong_final)


def shared_settings(config: DictConfig) -> LossSettings:
    """Settings that workers read for either command.

    Raises:
        SettingsError: a setting has the wrong type or is out of range.
    """
    content = _content(config)
    known = {name: content[name] for name in LossSettings.model_fields if name in content}
    return _validated(LossSettings, known)


def train_settings(config: DictConfig) -> TrainSettings:
    """The group ``dph`` of a training run.

    Raises:
        SettingsError: a setting is unknown, has the wrong type or is out of range.
    """
    return _validated(TrainSettings, _content(config))


def presample_settings(config: DictConfig) -> PresampleSettings:
    """The group ``dph`` of a pre-sampling run.

    Raises:
        SettingsError: a setting is unknown, has the wrong type or is out of range.
    """
    return _validated(PresampleSettings, _content(config))


def precision(config: DictConfig) -> str:
    """The dtype of the training engine's forward, as a pool's manifest names it.

    Raises:
        SettingsError: it is neither float32 nor bfloat16, or the engine is not one of FSDP.
    """
    actor = "actor_rollout_ref.actor"
    strategy = OmegaConf.select(config, f"{actor}.strategy")
    if strategy not in STRATEGIES:
        raise SettingsError(
            f"{actor}.strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}: the loss "
            "of stored answers was never compared with autograd in another engine of verl"
        )
    key = f"{actor}.fsdp_config.mixed_precision.param_dtype"
    found = OmegaConf.select(config, key) or "bf16"  # verl's own default
    if found not in PRECISIONS:
        raise SettingsError(f"{key} must be one of {', '.join(PRECISIONS)}, got {found!r}")
    return PRECISIONS[found]


def _content(config: DictConfig) -> dict[str, Any]:
    group = OmegaConf.to_container(config.dph, resolve=True, throw_on_missing=False)
    if not isinstance(group, dict) or group.get("pool", "???") in ("???", None):
        raise SettingsError("dph.pool is missing: the directory of the pool")
    return {str(key): value for key, value in group.items()}


def _validated(cls: type[S], content: Mapping[str, Any]) -> S:
    try:
        return cls.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"dph.{_first(error)}") from error


def _checked(cls: type[S], group: Section, names: Sequence[str], **more: Any) -> S:
    """These settings of the group as a recipe's section: the same types and ranges."""
    try:
        return cls.model_validate({name: getattr(group, name) for name in names} | more)
    except ValidationError as error:
        raise ValueError(_first(error)) from error


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message
    key = ".".join(str(part) for part in first["loc"])
    return f"{key}: {message}, got {first.get('input')!r:.80}"
