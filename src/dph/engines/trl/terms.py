"""The terms of ``[objective]`` in TRL's own settings, where TRL has them; else who can instead."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from trl import GRPOConfig

from dph.errors import SettingsError
from dph.loss.divergences import JensenShannonDefinition, PolicyHalf
from dph.loss.objectives import AnyAdvantage, GroupSamples, graded_advantages
from dph.loss.objectives.objective import needs_whole_step
from dph.recipe import ObjectiveSettings
from dph.recipe.terms import LOGPROBS, READ_IN_OWN_LOOP
from dph.runs.objective import make_objective

# Advantages that TRL does not have, from the rewards of all processes.


def all_advantages(
    advantage: AnyAdvantage,
    rewards: Tensor,
    weights: Tensor,
    *,
    samples: int,
    read: GroupSamples | None = None,
) -> Tensor:
    """One advantage for each sample, in the order of ``rewards``.

    Computed as: TRL's weighted sum over reward functions, then ``advantage`` of every group of
    ``samples`` rows in a row. A sample for which all functions returned None could not be graded:
    it is no part of its group.

    Args:
        advantage: the term.
        rewards: a row for each sample and a column for each reward function; NaN where that
            returned None.
        weights: one for each reward function.
        samples: the size of a group.
        read: what the term reads of the same samples, in groups.
    """
    graded = ~torch.isnan(rewards).all(dim=1)
    total = (rewards * weights.to(rewards.device)).nansum(dim=1)
    found = graded_advantages(advantage, total.view(-1, samples), graded.view(-1, samples), read)
    return found.flatten()


def read_logprobs(trainer: Any, batch: Mapping[str, Tensor], *, samples: int) -> GroupSamples:
    """Sums of log-probs (nats) and lengths of all processes' samples, in groups.

    They are TRL's old log-probs where it computes any, and else those of one more forward: TRL
    leaves them out where every sample is used before the weights move.

    Raises:
        SettingsError: the batch holds images, which that forward does not read.
    """
    if "pixel_values" in batch:
        raise SettingsError(
            "objective.advantage reads the log-probs of samples, which works only for text; this "
            "batch has images"
        )
    mask = batch["completion_mask"]
    if "tool_mask" in batch:
        mask = mask * batch["tool_mask"]
    logprobs = batch.get("old_per_token_logps")
    if logprobs is None:
        with torch.no_grad():
            logprobs = trainer._get_per_token_logps_and_entropies(
                trainer.model,
                torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
                torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
                batch["completion_ids"].shape[1],
                batch_size=trainer.args.per_device_train_batch_size,
            )[0]
    sums = torch.where(mask.bool(), logprobs, 0.0).sum(dim=1)
    together = trainer.accelerator.gather(sums).view(-1, samples)
    lengths = trainer.accelerator.gather(mask.sum(dim=1)).view(-1, samples)
    return GroupSamples(logprobs=together.float(), lengths=lengths.long().clamp(min=1))


REDUCTIONS = {"token_mean": "dapo", "sequence_mean": "grpo", "fixed_length": "dr_grpo"}
"""TRL's ``loss_type`` with the same denominator."""

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""The values of ``loss_type`` whose surrogate is the clipped one."""

_DEFAULTS = {field.name: field.default for field in fields(GRPOConfig)}

DYNAMIC_SAMPLING = (
    "TRL trains on the groups that it drew and cannot draw more for a step; "
    "`dph train` (objective.dynamic_sampling, method dapo) and verl (filter_groups) can"
)
DEFINITION = (
    "the definition form needs the initial policy's log-probs of every new sample in the loss, "
    "which TRL gives to its own KL term only; `dph train` (method dph_js_definition) can. "
    "Its stored half alone is not a divergence; use divergence='jensen_shannon'"
)


def apply_terms(args: GRPOConfig, objective: ObjectiveSettings) -> None:
    """Set TRL's fields to what the terms say; those that are not named stay TRL's own.

    Raises:
        SettingsError: TRL cannot do what is asked, or its own field says something else.
    """
    _refuse(objective)
    named = objective.model_fields_set
    if "reduction" in named:
        _set(args, "loss_type", REDUCTIONS[objective.reduction], "reduction")
    if "surrogate" in named:
        _apply_surrogate(args, objective)
    kinds = [term.kind for term in objective.penalties.values()]
    if "kl" in kinds:
        _set(args, "beta", _weight_of(objective, "kl"), "penalties")
        unbiased = "unbiased" in _kl_estimators(objective).values()
        _set(args, "use_bias_correction_kl", unbiased, "penalties")
        if unbiased:  # with the ratio of a whole sequence it is not
            _set(args, "importance_sampling_level", "token", "penalties")
    if "entropy" in kinds:
        _refuse_entropy_of_parts(args, objective)
        _set(args, "entropy_coef", _weight_of(objective, "entropy"), "penalties")
    if "advantage" in named:
        _apply_advantage(args, objective)
    if objective.overlong_filter:
        _set(args, "mask_truncated_completions", True, "overlong_filter")
    _refuse_masked_reading(args, objective)


def _weight_of(objective: ObjectiveSettings, kind: str) -> float:
    return sum(term.weight for term in objective.penalties.values() if term.kind == kind)


def _kl_estimators(objective: ObjectiveSettings) -> dict[str, str]:
    active = objective.active_penalties.items()
    return {name: term.parameters["estimator"] for name, term in active if term.kind == "kl"}


def _refuse_entropy_of_parts(args: GRPOConfig, objective: ObjectiveSettings) -> None:
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
    """Whether TRL has no such advantage, so that the trainer computes it."""
    return objective.advantage.kind != "group"


def _apply_surrogate(args: GRPOConfig, objective: ObjectiveSettings) -> None:
    if args.loss_type not in CLIPPED:
        raise SettingsError(
            f"DPHConfig: loss_type={args.loss_type!r} differs from the surrogate 'clipped' of "
            f"objective.surrogate: leave one of them out"
        )
    bounds = objective.surrogate.parameters
    _set(args, "epsilon", bounds["clip_low"], "surrogate.clip_low")
    _set(args, "epsilon_high", bounds["clip_high"], "surrogate.clip_high")


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
        raise SettingsError(f"DPHConfig cannot have dynamic_sampling=True: {DYNAMIC_SAMPLING}")
    if objective.overlong_buffer:
        raise SettingsError(
            f"DPHConfig cannot have overlong_buffer={objective.overlong_buffer}: in TRL that is a "
            f"separate reward function (trl.rewards.get_soft_overlong_punishment); `dph train` "
            f"and verl read the setting"
        )
    _refuse_advantage(objective)
    terms = make_objective(objective)
    entropy = {f"penalties.{n}" for n, p in objective.penalties.items() if p.kind == "entropy"}
    for place, why in needs_whole_step(terms).items():
        if place in entropy:
            continue  # becomes entropy_coef
        raise SettingsError(
            f"DPHConfig cannot have objective.{place}: it {why}, which TRL's loss does not "
            f"support; "
            "`dph train` can"
        )
    if objective.surrogate.kind != "clipped":
        raise SettingsError(_no_room("surrogate", objective.surrogate.kind))
    for name, penalty in objective.active_penalties.items():
        if penalty.kind == "entropy":
            continue
        if penalty.kind != "kl":
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


def _refuse_advantage(objective: ObjectiveSettings) -> None:
    for name in sorted(objective.advantage_reads() & READ_IN_OWN_LOOP.keys()):
        raise SettingsError(
            f"DPHConfig cannot have objective.advantage = {objective.advantage.kind!r}: it reads "
            f"{READ_IN_OWN_LOOP[name]}, which TRL's rows do not contain; `dph train` can"
        )


def _refuse_masked_reading(args: GRPOConfig, objective: ObjectiveSettings) -> None:
    if args.mask_truncated_completions and LOGPROBS in objective.advantage_reads():
        raise SettingsError(
            f"DPHConfig: objective.advantage = {objective.advantage.kind!r} reads the log-probs of "
            "all samples, and mask_truncated_completions=True removes cut-off samples first: "
            "leave one of them out; `dph train` supports both"
        )


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
