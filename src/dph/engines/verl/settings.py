"""The group ``dph`` of a verl configuration, and the objective in verl's own keys."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from omegaconf import DictConfig, OmegaConf, open_dict
from pydantic import ValidationError, model_validator

from dph.engines.engine_objective import engine_objective
from dph.errors import SettingsError
from dph.loss.objectives.objective import needs_whole_step
from dph.recipe import DataSettings, ObjectiveSettings, PresamplingSettings, TrainingSettings
from dph.recipe.objective import SHORTHAND, PenaltySettings
from dph.recipe.section import Count, FilePath, Positive, Section
from dph.recipe.terms import READ_IN_OWN_LOOP, reads_reference
from dph.runs.objective import make_objective
from dph.runs.presample.manifest import Rule
from dph.tasks.verifiers import Verifier, make_verifier

S = TypeVar("S", bound=Section)

_SHORT_NAMES = (*SHORTHAND, "reduction", "overlong_buffer", "overlong_penalty")
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

PRECISIONS = {"bf16": "bfloat16", "bfloat16": "bfloat16", "fp32": "float32", "float32": "float32"}
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
        short = {name: data.get(name) for name in _SHORT_NAMES}
        objective = engine_objective(given, method=data.get("method"), short=short)
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
        checked = _checked(PresamplingSettings, self, ("samples", "threshold", "wrong_final"))
        return Rule(threshold=checked.threshold, wrong_final=checked.wrong_final)


def shared_settings(config: DictConfig) -> LossSettings:
    """Settings that workers read in both commands."""
    content = _content(config)
    known = {name: content[name] for name in LossSettings.model_fields if name in content}
    return _validated(LossSettings, known)


def train_settings(config: DictConfig) -> TrainSettings:
    return _validated(TrainSettings, _content(config))


def presample_settings(config: DictConfig) -> PresampleSettings:
    return _validated(PresampleSettings, _content(config))


def precision(config: DictConfig) -> str:
    """The dtype of the training engine's forward, as a pool's manifest names it."""
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


# The terms of [objective], if verl has them.

OWN_SURROGATE = "dph_surrogate"
"""verl's name for a user-defined surrogate (``actor.policy_loss.loss_mode``)."""

AGGREGATIONS = {
    "token_mean": "token-mean",
    "sequence_mean": "seq-mean-token-mean",
    "fixed_length": "seq-mean-token-sum-norm",
}
ESTIMATORS = {"k2": "k2", "k3": "low_var_kl"}
"""Estimators of verl's own loss. Its "k3+" has the gradient of k2 without the ratio pi / pi_old, so
it is not ``unbiased``, which this package adds."""

_ACTOR = "actor_rollout_ref.actor"


def apply_terms(config: DictConfig, objective: ObjectiveSettings) -> None:
    """Set verl's keys to the terms; those that are not named stay verl's own.

    Doing it again changes nothing.
    """
    if own_loss(objective) and OmegaConf.select(config, "distillation.enabled"):
        raise SettingsError(
            "distillation.enabled=true and dph.objective, whose loss would replace it: use only one"
        )
    if objective.overlong_filter:
        raise SettingsError(
            "dph.objective.overlong_filter: verl counts answers that were cut off in its loss; "
            "`dph train` and TRL (mask_truncated_completions) leave them out"
        )
    for name in sorted(objective.advantage_reads() & READ_IN_OWN_LOOP.keys()):
        raise SettingsError(
            f"dph.objective.advantage.kind={objective.advantage.kind} reads "
            f"{READ_IN_OWN_LOOP[name]}, which verl's rows do not contain; `dph train` can"
        )
    for place, why in needs_whole_step(make_objective(objective)).items():
        raise SettingsError(
            f"dph.objective.{place}: it {why}, and verl gives its loss the log-probs of sampled "
            "tokens; `dph train` can"
        )
    named = objective.model_fields_set
    if "reduction" in named:
        _set(config, f"{_ACTOR}.loss_agg_mode", AGGREGATIONS[objective.reduction], "token-mean")
        if objective.reduction == "fixed_length":
            limit = config.actor_rollout_ref.rollout.response_length
            _set(config, f"{_ACTOR}.loss_scale_factor", limit, None)
    if "surrogate" in named:
        _apply_surrogate(config, objective)
    if OmegaConf.select(config, f"{_ACTOR}.clip_ratio_c") is None:
        # Above e^20, the largest ratio in verl: off, as in our surrogate. Else verl's own default.
        _set(config, f"{_ACTOR}.clip_ratio_c", 1e9 if "surrogate" in named else 3.0, None)
    _apply_penalties(config, objective)
    if "advantage" in named:
        _apply_advantage(config, objective)
    if objective.dynamic_sampling:
        _set(config, "algorithm.filter_groups.enable", True, False)
        # Right and wrong answers are counted, as in `dph train`, and not rewards with penalties.
        _set(config, "algorithm.filter_groups.metric", "acc", "reward")


def own_loss(objective: ObjectiveSettings) -> bool:
    """True if the workers get a loss of this package, which calls verl's."""
    named = "surrogate" in objective.model_fields_set
    return objective.rehearses or named or bool(own_penalties(objective))


def own_advantage(objective: ObjectiveSettings) -> bool:
    """True if verl has no such advantage, so that the trainer computes it."""
    return objective.advantage.kind != "group"


def own_surrogate(objective: ObjectiveSettings) -> bool:
    """True if verl has no such surrogate, so that ours is registered with it."""
    return objective.surrogate.kind != "clipped"


def own_penalties(objective: ObjectiveSettings) -> dict[str, PenaltySettings]:
    """Penalties that are added to verl's loss: all but the first KL that verl has itself."""
    first = next(iter(_kls_of_verl(objective)), None)
    return {n: term for n, term in objective.active_penalties.items() if n != first}


def _kls_of_verl(objective: ObjectiveSettings) -> dict[str, PenaltySettings]:
    active = objective.active_penalties.items()
    kls = {name: term for name, term in active if term.kind == "kl"}
    return {name: term for name, term in kls.items() if term.parameters["estimator"] in ESTIMATORS}


def _apply_surrogate(config: DictConfig, objective: ObjectiveSettings) -> None:
    kind = objective.surrogate.kind
    if own_surrogate(objective) and reads_reference(objective.surrogate.table, kind):
        raise SettingsError(
            f"dph.objective.surrogate.kind={kind} reads the initial policy's log-probs, which verl "
            "does not give to a surrogate: make that part a penalty, or use `dph train`"
        )
    mode = OWN_SURROGATE if own_surrogate(objective) else "vanilla"
    _set(config, f"{_ACTOR}.policy_loss.loss_mode", mode, "vanilla")
    if mode == "vanilla":
        bounds = objective.surrogate.parameters
        _set(config, f"{_ACTOR}.clip_ratio_low", bounds["clip_low"], 0.2)
        _set(config, f"{_ACTOR}.clip_ratio_high", bounds["clip_high"], 0.2)


def _apply_penalties(config: DictConfig, objective: ObjectiveSettings) -> None:
    if "kl" in {term.kind for term in objective.active_penalties.values()}:
        term = next(iter(_kls_of_verl(objective).values()), PenaltySettings())
        used = bool(OmegaConf.select(config, f"{_ACTOR}.use_kl_loss"))
        coefficient = OmegaConf.select(config, f"{_ACTOR}.kl_loss_coef")
        _set(config, f"{_ACTOR}.use_kl_loss", True, False)
        # verl's default coefficient says nothing where its KL loss is off.
        default = None if used else coefficient
        _set(config, f"{_ACTOR}.kl_loss_coef", term.weight, default)
        estimator = ESTIMATORS[term.parameters["estimator"]]
        _set(config, f"{_ACTOR}.kl_loss_type", estimator, "low_var_kl")
    if objective.needs_reference_model:
        # verl then computes the initial policy's log-probs of new answers.
        actor = config.actor_rollout_ref.actor
        with open_dict(actor):
            if not actor.use_kl_loss:
                actor.use_kl_loss, actor.kl_loss_coef = True, 0.0


def _apply_advantage(config: DictConfig, objective: ObjectiveSettings) -> None:
    kind = objective.advantage.kind
    estimator = OmegaConf.select(config, "algorithm.adv_estimator")
    if estimator != "grpo":
        raise SettingsError(
            f"algorithm.adv_estimator={estimator} differs from "
            f"dph.objective.advantage.kind={kind}: leave one of them out"
        )
    if not own_advantage(objective):
        scaled = objective.advantage.parameters["scale"] == "std"
        _set(config, "algorithm.norm_adv_by_std_in_grpo", scaled, True)


def _set(config: DictConfig, key: str, wanted: Any, default: Any) -> None:
    given = OmegaConf.select(config, key)
    if given not in (default, wanted):
        raise SettingsError(
            f"{key}={given} and dph.objective, which sets it to {wanted}: set it only once"
        )
    with open_dict(config):
        OmegaConf.update(config, key, wanted)
