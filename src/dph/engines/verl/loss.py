"""The loss of a mixed micro-batch, in the form that verl's training workers call.

    policy_scale * ppo_loss(policy rows) + sum of weight * penalty + sum of weight * anchor_term

``ppo_loss`` is verl's own, with stored rows masked out; penalties and ``anchor_term`` are the
package's. What the latter divides by comes with the rows (``mixing.row_scales``), so nothing
depends on ranks or micro-batches.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
from dph.engines.verl.settings import OWN_SURROGATE, own_penalties
from dph.loss.objectives import POLICY, LossBatch, Objective, anchor_term, policy_tokens
from dph.loss.objectives.terms import PolicyTokens
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective

Metrics = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class WorkerLoss:
    """A loss function for ``TrainingWorker.set_loss_fn``: verl's, and the terms that verl lacks.

    It is sent to the workers as settings: they import user-defined terms themselves. Rows may all
    be the policy's. A divergence that also acts on those needs their ``ref_log_prob``.
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
        batch, online = _loss_batch(model_output, data), data.copy()
        # Of whole mini-batches and all ranks. At least 1: one without a policy token makes 0 / 0.
        count, ranks = max(data["batch_num_tokens"], 1), int(data["dp_size"])
        tu.assign_non_tensor(online, batch_num_tokens=count)
        if STORED in data:
            online["response_mask"] = gated(data["response_mask"], batch.source == POLICY)
        tokens = policy_tokens(batch)
        # Without a graph: verl's table of losses keeps what it is given.
        without = replace(tokens, logprobs=tokens.logprobs.detach())
        register_policy_loss(OWN_SURROGATE)(partial(self._surrogate, without))
        term = self.objective.surrogate(without)
        total, metrics = ppo_loss(self.actor, model_output, online, dp_group)
        for side, where in (("low", term.clipped_low), ("high", term.clipped_high)):
            share = ranks * int((where & tokens.mask).sum()) / count
            metrics[f"dph/clipped_{side}"] = Metric(AggregationType.SUM, share)
        for name in own_penalties(self.settings):
            value = self._aggregated(self.objective.token_penalties[name](tokens), tokens.mask)
            total = total + self.settings.penalties[name].weight * value
            metrics[f"dph/penalty/{name}"] = Metric(AggregationType.SUM, value.detach())
        if STORED not in data:
            return total, metrics
        total = float(data[SCALES[1]][0]) * total
        for source, (name, anchor) in enumerate(self.objective.anchors.items(), start=1):
            # Gradients are averaged over ranks, and every token is on one rank only.
            value = ranks * anchor_term(batch, anchor.divergence, source=source)
            total = total + anchor.weight * value
            key = "dph/divergence" if len(self.objective.anchors) == 1 else f"dph/divergence/{name}"
            metrics[key] = Metric(AggregationType.SUM, value.detach())
        stored = batch.source != POLICY
        distance = (batch.logprobs.detach() - batch.ref_logprobs).abs()
        largest = torch.where(batch.mask & stored[:, None], distance, 0.0).max()
        used = float(ranks * (batch.weights[stored] > 0).sum())
        return total, {
            **metrics,
            "dph/stored_rows": Metric(AggregationType.SUM, used),
            "dph/log_ratio_max": Metric(AggregationType.MAX, float(largest)),
        }

    def _surrogate(
        self, tokens: PolicyTokens, *, log_prob: Tensor, rollout_is_weights: Any = None, **_: Any
    ) -> tuple[Tensor, Metrics]:
        """In the form of verl's policy losses, for the ``tokens`` with these log-probs."""
        now = replace(tokens, logprobs=torch.where(tokens.mask, log_prob, 0.0))
        values = self.objective.surrogate(now).loss
        if rollout_is_weights is not None:
            values = values * rollout_is_weights
        return self._aggregated(values, tokens.mask), {}

    def _aggregated(self, values: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = agg_loss(
            loss_mat=torch.where(mask, values, 0.0),
            loss_mask=mask,
            loss_agg_mode=self.actor.loss_agg_mode,
            **self.actor.global_batch_info,
        )
        return found


def _loss_batch(model_output: Any, data: TensorDict) -> LossBatch:
    mask = data["response_mask"].to_padded_tensor(0).bool()
    old = data["old_log_probs"].to_padded_tensor(0.0)
    # verl repeats a row's advantage on each of its tokens.
    advantages = torch.where(mask, data["advantages"].to_padded_tensor(0.0), 0.0).sum(-1)
    nothing = torch.zeros_like(advantages)
    source = data.get(STORED, nothing).long()
    reference = old
    if "ref_log_prob" in data:
        own = data["ref_log_prob"].to_padded_tensor(0.0)
        reference = torch.where(source.bool()[:, None], old, own)
    return LossBatch(
        logprobs=no_padding_2_padding(model_output["log_probs"], data),
        old_logprobs=old,
        ref_logprobs=reference,
        mask=mask,
        advantages=advantages / mask.sum(-1).clamp(min=1),
        source=source,
        weights=data.get(SCALES[0], nothing),
    )
