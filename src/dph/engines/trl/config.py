"""The settings of ``DPHTrainer``: ``trl.GRPOConfig``, what rehearsal adds, and the objective.

What a recipe's ``[objective]`` says becomes TRL's own settings, or is refused with who can do it.
"""

import logging
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trl import GRPOConfig

from dph.engines.engine_objective import engine_objective
from dph.errors import SettingsError
from dph.loss.divergences import JensenShannonDefinition, PolicyHalf
from dph.loss.objectives.objective import needs_whole_step
from dph.recipe import ObjectiveSettings
from dph.recipe.objective import REHEARSAL, SHORTHAND
from dph.recipe.places import POOL
from dph.recipe.terms import LOGPROBS, READ_IN_OWN_LOOP
from dph.runs.objective import make_objective

logger = logging.getLogger(__name__)

_SHORT_NAMES = (*SHORTHAND, "dynamic_sampling")
"""Fields of ``DPHConfig`` that are keys of the objective."""


def _short(name: str) -> dict[str, str]:
    return {"help": f"short for objective.{'.'.join(SHORTHAND[name])}"}


@dataclass
class DPHConfig(GRPOConfig):  # type: ignore[misc]
    """``trl.GRPOConfig`` with a pool and the objective of a recipe.

    The loss is TRL's own plus, for every anchor, its weight times the mean of its divergence over
    the tokens of its stored answers (all processes and micro-steps of an optimizer step together).
    What a recipe's ``[objective]`` says of the other terms becomes TRL's settings (``terms``).

    Args:
        objective: The section ``[objective]`` of a recipe: a table, JSON text, or the path of a
            recipe. Once the configuration is made, the settings that came of it.
        method: A named method of the recipes; what ``objective`` and the short names say wins.
        pool: Directory that ``dph presample`` left behind, for anchors that name no other pool.
        rehearsal_per_step: Stored answers an optimizer step, over all processes, for anchors that
            do not say ``per_step``.
        divergence, eta, ...: The short names of the objective, as in a recipe. With neither
            ``objective`` nor ``method``, divergence is forward_kl and eta 0.01; eta = 0 is GRPO.
        dynamic_sampling: Refused, with the name of an engine that can.
        disable_dropout: As in TRL, but True by default: the same weights must give ratio 1.

    Raises:
        SettingsError: a value is out of range, TRL cannot do what is asked, or one of its own
            fields says something else.
    """

    objective: dict[str, Any] | str | ObjectiveSettings | None = field(
        default=None, metadata={"help": "[objective] of a recipe: JSON text, or a recipe's path"}
    )
    method: str | None = field(default=None, metadata={"help": "a named method of the recipes"})
    pool: str = field(default="", metadata={"help": "directory of a pool (dph presample)"})
    rehearsal_per_step: int = field(
        default=32, metadata={"help": "stored answers per optimizer step, over all processes"}
    )
    divergence: str | None = field(default=None, metadata=_short("divergence"))
    eta: float | None = field(default=None, metadata=_short("eta"))
    alpha: float | None = field(default=None, metadata=_short("alpha"))
    forward_kl_form: str | None = field(default=None, metadata=_short("forward_kl_form"))
    js_definition: bool | None = field(default=None, metadata={"help": "refused: TRL cannot"})
    advantage_scale: str | None = field(default=None, metadata=_short("advantage_scale"))
    clip_low: float | None = field(default=None, metadata=_short("clip_low"))
    clip_high: float | None = field(default=None, metadata=_short("clip_high"))
    kl_coefficient: float | None = field(default=None, metadata=_short("kl_coefficient"))
    kl_estimator: str | None = field(default=None, metadata=_short("kl_estimator"))
    dynamic_sampling: bool | None = field(default=None, metadata={"help": "refused: TRL cannot"})
    disable_dropout: bool = field(
        default=True, metadata={"help": "ratios between two forwards of the same weights must be 1"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.js_definition:
            raise SettingsError(f"DPHConfig cannot have js_definition=True: {DEFINITION}")
        self.objective = settings = self._read_objective()
        apply_terms(self, settings)
        if not settings.rehearses:
            return
        for name, anchor in settings.active_anchors.items():
            if anchor.samples == POOL and not self.pool:
                what = "eta" if name == REHEARSAL else f"objective.anchors.{name}.weight"
                raise SettingsError(
                    f"{what}={anchor.weight} needs a pool: DPHConfig(pool=<directory>)"
                )
        if not isinstance(self.rehearsal_per_step, int) or self.rehearsal_per_step < 1:
            raise SettingsError(
                f"rehearsal_per_step must be a whole number of at least 1, got "
                f"{self.rehearsal_per_step!r}"
            )
        if self.fp16:
            raise SettingsError(
                "rehearsal compares log-probs of float32 or bfloat16 forwards, got fp16=True: "
                "use bf16=True, or neither"
            )
        per_rollout = self.steps_per_rollout
        whole = self.save_steps < 1 or (self.save_steps / per_rollout).is_integer()  # < 1: a share
        if self.save_strategy == "steps" and not whole:
            logger.warning(
                "save_steps=%s is not a multiple of the %g optimizer steps of a rollout: some "
                "checkpoints will be refused when a run resumes",
                *(self.save_steps, per_rollout),
            )

    def _read_objective(self) -> ObjectiveSettings:
        given = str(self.objective) if isinstance(self.objective, Path) else self.objective
        if isinstance(given, ObjectiveSettings):
            given = given.model_dump(exclude_unset=True, exclude_none=True)
        try:
            return engine_objective(
                given, method=self.method, short={n: getattr(self, n) for n in _SHORT_NAMES}
            )
        except SettingsError as error:
            raise SettingsError(f"DPHConfig: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """As in transformers: saved, and sent to trackers."""
        found: dict[str, Any] = super().to_dict()
        return {**found, "objective": self.terms.model_dump(mode="json", exclude_unset=True)}

    @property
    def terms(self) -> ObjectiveSettings:
        """The objective, complete."""
        assert isinstance(self.objective, ObjectiveSettings)
        return self.objective

    @property
    def precision(self) -> str:
        """The dtype of the training forward, as a pool's manifest names it."""
        return "bfloat16" if self.bf16 else "float32"

    @property
    def steps_per_rollout(self) -> float:
        """Optimizer steps that share one rollout."""
        micro_steps = self.steps_per_generation * self.num_iterations
        return float(micro_steps / self.gradient_accumulation_steps)


# [objective] in TRL's fields.

REDUCTIONS = {"token_mean": "dapo", "sequence_mean": "grpo", "fixed_length": "dr_grpo"}
"""TRL's ``loss_type`` with the same denominator."""

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""The values of ``loss_type`` whose surrogate is the clipped one."""

_DEFAULTS = {field.name: field.default for field in fields(GRPOConfig)}

DEFINITION = (
    "the definition form needs the initial policy's log-probs of every new sample in the loss, "
    "which TRL gives to its own KL term only; `dph train` (method dph_js_definition) can. "
    "Only its stored half is not a divergence; use divergence='jensen_shannon'"
)


def apply_terms(args: GRPOConfig, objective: ObjectiveSettings) -> None:
    """Set TRL's fields to the terms; those that are not named stay TRL's own."""
    _refuse(objective)
    named = objective.model_fields_set
    if "reduction" in named:
        _set(args, "loss_type", REDUCTIONS[objective.reduction], "reduction")
    if "surrogate" in named:
        if args.loss_type not in CLIPPED:
            raise SettingsError(
                f"DPHConfig: loss_type={args.loss_type!r} differs from the surrogate 'clipped' of "
                f"objective.surrogate: leave one of them out"
            )
        bounds = objective.surrogate.parameters
        _set(args, "epsilon", bounds["clip_low"], "surrogate.clip_low")
        _set(args, "epsilon_high", bounds["clip_high"], "surrogate.clip_high")
    kinds = [term.kind for term in objective.penalties.values()]
    if "kl" in kinds:
        _set(args, "beta", _weight_of(objective, "kl"), "penalties")
        unbiased = "unbiased" in _kl_estimators(objective).values()
        _set(args, "use_bias_correction_kl", unbiased, "penalties")
        if unbiased:  # with the ratio of a whole sequence it is not
            _set(args, "importance_sampling_level", "token", "penalties")
    if "entropy" in kinds:
        _require_whole_entropy(args, objective)
        _set(args, "entropy_coef", _weight_of(objective, "entropy"), "penalties")
    if "advantage" in named:
        _apply_advantage(args, objective)
    if objective.overlong_filter:
        _set(args, "mask_truncated_completions", True, "overlong_filter")
    if args.mask_truncated_completions and LOGPROBS in objective.advantage_reads():
        raise SettingsError(
            f"DPHConfig: objective.advantage = {objective.advantage.kind!r} reads the log-probs of "
            "all samples, and mask_truncated_completions=True removes cut-off samples first: "
            "leave one of them out; `dph train` supports both"
        )


def _weight_of(objective: ObjectiveSettings, kind: str) -> float:
    return sum(term.weight for term in objective.penalties.values() if term.kind == kind)


def _kl_estimators(objective: ObjectiveSettings) -> dict[str, str]:
    active = objective.active_penalties.items()
    return {name: term.parameters["estimator"] for name, term in active if term.kind == "kl"}


def _require_whole_entropy(args: GRPOConfig, objective: ObjectiveSettings) -> None:
    """TRL takes the mean entropy of each micro-batch, ours is that of a whole step's tokens."""
    parts = args.gradient_accumulation_steps * args.world_size
    if "entropy" in {p.kind for p in objective.active_penalties.values()} and (
        parts > 1 or objective.reduction != "token_mean"
    ):
        raise SettingsError(
            f"DPHConfig: an entropy penalty is TRL's entropy_coef only with reduction = "
            f"'token_mean' and one micro-batch a step, got {objective.reduction!r} and {parts} "
            f"(gradient_accumulation_steps x processes), of which TRL averages the means: set "
            f"entropy_coef itself, or use `dph train`"
        )


def own_advantage(objective: ObjectiveSettings) -> bool:
    return objective.advantage.kind != "group"


def _apply_advantage(args: GRPOConfig, objective: ObjectiveSettings) -> None:
    if not own_advantage(objective):
        scale = {"std": "group", "none": "none"}[objective.advantage.parameters["scale"]]
        _set(args, "scale_rewards", scale, "advantage.scale")
        return
    for name in ("scale_rewards", "multi_objective_aggregation"):
        if getattr(args, name) != _DEFAULTS[name]:
            raise SettingsError(
                f"DPHConfig: {name}={getattr(args, name)!r} shapes TRL's own advantages, and "
                f"objective.advantage is {objective.advantage.kind!r}: leave one of them out"
            )


def _refuse(objective: ObjectiveSettings) -> None:
    if objective.dynamic_sampling:
        raise SettingsError(
            "DPHConfig cannot have dynamic_sampling=True: TRL trains on the groups that it drew "
            "and cannot draw more for a step; `dph train` (objective.dynamic_sampling, method "
            "dapo) and verl (filter_groups) can"
        )
    if objective.overlong_buffer:
        raise SettingsError(
            f"DPHConfig cannot have overlong_buffer={objective.overlong_buffer}: in TRL that is a "
            f"separate reward function (trl.rewards.get_soft_overlong_punishment); `dph train` "
            f"and verl read the setting"
        )
    for name in sorted(objective.advantage_reads() & READ_IN_OWN_LOOP.keys()):
        raise SettingsError(
            f"DPHConfig cannot have objective.advantage = {objective.advantage.kind!r}: it reads "
            f"{READ_IN_OWN_LOOP[name]}, which TRL's rows do not contain; `dph train` can"
        )
    terms = make_objective(objective)
    entropy = {f"penalties.{n}" for n, p in objective.penalties.items() if p.kind == "entropy"}
    for place, why in needs_whole_step(terms).items():
        if place in entropy:
            continue  # becomes entropy_coef
        raise SettingsError(
            f"DPHConfig cannot have objective.{place}: it {why}, which TRL's loss does not "
            "support; `dph train` can"
        )
    if objective.surrogate.kind != "clipped":
        raise SettingsError(_no_room("surrogate", objective.surrogate.kind))
    for name, penalty in objective.active_penalties.items():
        if penalty.kind not in ("entropy", "kl"):
            raise SettingsError(_no_room(f"penalties.{name}", penalty.kind))
    estimators = _kl_estimators(objective)
    if "k2" in estimators.values() or len({*estimators.values()}) > 1:
        raise SettingsError(
            f"DPHConfig: objective.penalties asks for the estimators {estimators}, and TRL has one "
            "KL term, k3 or unbiased: `dph train` and verl support all; on the policy's own "
            "samples unbiased has k2's gradient"
        )
    for name, anchor in terms.anchors.items():
        if isinstance(anchor.divergence, JensenShannonDefinition):
            raise SettingsError(f"DPHConfig cannot have objective.anchors.{name}: {DEFINITION}")
        if isinstance(anchor.divergence, PolicyHalf):
            raise SettingsError(_no_room(f"anchors.{name}.on_policy", anchor.divergence))


def _no_room(place: str, kind: object) -> str:
    return (
        f"DPHConfig cannot have objective.{place} = {kind!r}: TRL computes its loss as a whole, "
        f"which leaves no place for it; `dph train` and verl can"
    )


def _set(args: GRPOConfig, name: str, wanted: Any, key: str) -> None:
    given = getattr(args, name)
    if given not in (_DEFAULTS[name], wanted):
        raise SettingsError(
            f"DPHConfig: {name}={given!r} and objective.{key}, which sets it to {wanted!r}: set "
            f"it only once"
        )
    setattr(args, name, wanted)
