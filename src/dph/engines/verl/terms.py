"""The terms of ``[objective]`` in verl's own settings, where verl has them."""

from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from dph.errors import SettingsError
from dph.loss.objectives.objective import needs_whole_step
from dph.recipe import ObjectiveSettings
from dph.recipe.objective import PenaltySettings
from dph.recipe.terms import READ_IN_OWN_LOOP, reads_reference
from dph.runs.objective import make_objective

OWN_SURROGATE = "dph_surrogate"
"""The name under which verl finds a surrogate of one's own (``actor.policy_loss.loss_mode``)."""

AGGREGATIONS = {
    "token_mean": "token-mean",
    "sequence_mean": "seq-mean-token-mean",
    "fixed_length": "seq-mean-token-sum-norm",
}
ESTIMATORS = {"k2": "k2", "k3": "low_var_kl"}
"""Those that verl's loss has. Its "k3+" is not ``unbiased``, which is added instead: it has the
gradient of k2, without the ratio pi / pi_old."""

_ACTOR = "actor_rollout_ref.actor"


def apply_terms(config: DictConfig, objective: ObjectiveSettings) -> None:
    """Set verl's keys to what the terms say; those that are not named stay verl's own.

    Doing it again changes nothing.

    Raises:
        SettingsError: verl cannot do what is asked, or its own key says something else.
    """
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
    _apply_penalties(config, objective)
    if "advantage" in named:
        _apply_advantage(config, objective)
    if objective.dynamic_sampling:
        _set(config, "algorithm.filter_groups.enable", True, False)
        # Right and wrong answers are counted, as in `dph train`, and not rewards with penalties.
        _set(config, "algorithm.filter_groups.metric", "acc", "reward")


def own_advantage(objective: ObjectiveSettings) -> bool:
    """Whether verl has no such advantage, so that the trainer computes it."""
    return objective.advantage.kind != "group"


def own_surrogate(objective: ObjectiveSettings) -> bool:
    """Whether verl has no such surrogate, so that it is registered with it."""
    return objective.surrogate.kind != "clipped"


def own_penalties(objective: ObjectiveSettings) -> dict[str, PenaltySettings]:
    """Those that are added to verl's loss: all but the first KL that verl has, which is its own."""
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
        ask_for_reference(config)


def ask_for_reference(config: DictConfig) -> None:
    """Have verl compute the initial policy's log-probs of new answers."""
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
