"""The loss of a mixed micro-batch, in the form that verl's training workers call.

    policy_scale * ppo_loss(policy rows) + sum of weight * penalty + sum of weight * anchor_term

``ppo_loss`` is verl's own, with stored rows masked out and the policy's own token count as its
denominator; penalties and ``anchor_term`` are the package's. What they divide by comes with the
rows (``mixing.row_scales``), so nothing depends on ranks or micro-batches.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss, register_policy_loss
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from dph.engines.verl.rows import SCALES, STORED, gated
from dph.engines.verl.settings import OWN_SURROGATE, own_penalties, own_surrogate
from dph.loss.objectives import LossBatch, Objective, PolicyTokens, anchor_term
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective

Metrics = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PolicyLoss:
    """verl's loss of new answers, with the surrogate and the penalties that verl lacks.

    It is sent to the workers as settings: they import user-defined terms themselves.
    """

    actor: Any
    """verl's ``ActorConfig``."""
    settings: ObjectiveSettings
    objective: Objective = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", make_objective(self.settings))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return partial(type(self), actor=self.actor, settings=self.settings), ()

    def __call__(
        self, model_output: Any, data: TensorDict, dp_group: Any = None
    ) -> tuple[Tensor, Metrics]:
        if own_surrogate(self.settings):
            register_policy_loss(OWN_SURROGATE)(self._surrogate)
        loss, metrics = ppo_loss(self.actor, model_output, data, dp_group)
        for name in own_penalties(self.settings):
            penalty = self.objective.token_penalties[name]
            tokens = _policy_tokens(model_output, data)
            value = self._aggregated(penalty(tokens), tokens.mask)
            loss = loss + self.settings.penalties[name].weight * value
            metrics[f"dph/penalty/{name}"] = Metric(AggregationType.SUM, value.detach())
        return loss, metrics

    def _surrogate(
        self,
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        rollout_is_weights: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, Metrics]:
        """In the form of verl's policy losses."""
        mask = response_mask.bool()
        # verl repeats a row's advantage on each of its tokens.
        row = torch.where(mask, advantages, 0.0).sum(-1) / mask.sum(-1).clamp(min=1)
        zeros = torch.zeros_like(log_prob)
        tokens = PolicyTokens(
            logprobs=torch.where(mask, log_prob, 0.0),
            old_logprobs=torch.where(mask, old_log_prob, 0.0),
            ref_logprobs=zeros,
            mask=mask,
            advantages=row,
        )
        term = self.objective.surrogate(tokens)
        values = term.loss if rollout_is_weights is None else term.loss * rollout_is_weights
        clipped = {"low": term.clipped_low, "high": term.clipped_high}
        shares = {
            f"actor/clipped_{side}": float((where & mask).sum() / mask.sum().clamp(min=1))
            for side, where in clipped.items()
        }
        return self._aggregated(values, mask), shares

    def _aggregated(self, values: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = agg_loss(
            loss_mat=torch.where(mask, values, 0.0),
            loss_mask=mask,
            loss_agg_mode=self.actor.loss_agg_mode,
            **self.actor.global_batch_info,
        )
        return found


@dataclass(frozen=True, kw_only=True)
class WorkerLoss(PolicyLoss):
    """A loss function for ``TrainingWorker.set_loss_fn``, where stored rows are mixed in.

    A divergence that also acts on the policy's rows needs their ``ref_log_prob``.
    """

    def __call__(
        self, model_output: Any, data: TensorDict, dp_group: Any = None
    ) -> tuple[Tensor, Metrics]:
        weight, policy_tokens, policy_scale = (data[name] for name in SCALES)
        stored = data[STORED].bool()
        online = data.copy()
        online["response_mask"] = gated(data["response_mask"], ~stored)
        # At least 1: a mini-batch may hold no policy token, and 0 / 0 is NaN.
        tu.assign_non_tensor(online, batch_num_tokens=max(float(policy_tokens[0]), 1.0))
        loss, metrics = super().__call__(model_output, online, dp_group)
        batch = _loss_batch(model_output, data, weight)
        ranks = int(data["dp_size"])
        total = float(policy_scale[0]) * loss
        for source, (name, anchor) in enumerate(self.objective.anchors.items(), start=1):
            # Gradients are averaged over ranks, and every token is on one rank only.
            value = ranks * anchor_term(batch, anchor.divergence, source=source)
            total = total + anchor.weight * value
            key = "dph/divergence" if len(self.objective.anchors) == 1 else f"dph/divergence/{name}"
            metrics[key] = Metric(AggregationType.SUM, value.detach())
        count = float(ranks * (weight[stored] > 0).sum())
        distance = (batch.logprobs.detach() - batch.ref_logprobs).abs()
        largest = torch.where(batch.mask & stored[:, None], distance, 0.0).max()
        return total, {
            **metrics,
            "dph/stored_rows": Metric(AggregationType.SUM, count),
            "dph/log_ratio_max": Metric(AggregationType.MAX, float(largest)),
        }


def _policy_tokens(model_output: Any, data: TensorDict) -> PolicyTokens:
    mask = data["response_mask"].to_padded_tensor(0).bool()
    logprobs = torch.where(mask, no_padding_2_padding(model_output["log_probs"], data), 0.0)
    old = data["old_log_probs"].to_padded_tensor(0.0)
    reference = torch.zeros_like(old)
    if "ref_log_prob" in data:
        reference = torch.where(mask, data["ref_log_prob"].to_padded_tensor(0.0), 0.0)
    advantages = data["advantages"].to_padded_tensor(0.0)
    return PolicyTokens(
        logprobs=logprobs,
        old_logprobs=torch.where(mask, old, 0.0),
        ref_logprobs=reference,
        mask=mask,
        advantages=torch.where(mask, advantages, 0.0).sum(-1) / mask.sum(-1).clamp(min=1),
    )


def _loss_batch(model_output: Any, data: TensorDict, weight: Tensor) -> LossBatch:
    source = data[STORED].long()
    logprobs = no_padding_2_padding(model_output["log_probs"], data)
    old = data["old_log_probs"].to_padded_tensor(0.0)
    reference = old
    if "ref_log_prob" in data:
        own = data["ref_log_prob"].to_padded_tensor(0.0)
        reference = torch.where(source.bool()[:, None], old, own)
    return LossBatch(
        logprobs=logprobs,
        old_logprobs=old,
        ref_logprobs=reference,
        mask=data["response_mask"].to_padded_tensor(0).bool(),
        advantages=torch.zeros_like(weight),
        source=source,
        weights=weight,
    )
