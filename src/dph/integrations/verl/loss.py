"""The loss of a mixed micro-batch, in the form that verl's training workers call.

    policy_scale * ppo_loss(policy rows) + eta * anchor_term

``ppo_loss`` is verl's own, with stored rows masked out and the policy's own token count as its
denominator; ``anchor_term`` is the package's. What either divides by comes with the rows
(``layout.row_scales``), so neither depends on ranks or micro-batches.
"""

from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from dph.divergences import Divergence
from dph.integrations.verl.tensors import SCALES, STORED, gated
from dph.objectives import LossBatch, anchor_term


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoss:
    """A loss function for ``TrainingWorker.set_loss_fn``; travels to the workers as data.

    A divergence that also acts on the policy's rows needs their ``ref_log_prob``.
    """

    actor: Any
    """verl's ``ActorConfig``."""
    divergence: Divergence
    eta: float

    def __call__(
        self, model_output: Any, data: TensorDict, dp_group: Any = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """The micro-batch's part of the loss, and verl's metrics with ours."""
        weight, policy_tokens, policy_scale = (data[name] for name in SCALES)
        stored = data[STORED].bool()
        online = data.copy()
        online["response_mask"] = gated(data["response_mask"], ~stored)
        # At least 1: a mini-batch may hold no policy token, and 0 / 0 is NaN.
        tu.assign_non_tensor(online, batch_num_tokens=max(float(policy_tokens[0]), 1.0))
        loss, metrics = ppo_loss(self.actor, model_output, online, dp_group)
        batch = _loss_batch(model_output, data, stored, weight)
        ranks = int(data["dp_size"])
        # Gradients are averaged over ranks, and every token is on one rank only.
        rehearse = ranks * anchor_term(batch, self.divergence)
        return float(policy_scale[0]) * loss + self.eta * rehearse, {
            **metrics,
            "dph/divergence": Metric(AggregationType.SUM, rehearse.detach()),
            "dph/stored_rows": Metric(
                AggregationType.SUM, float(ranks * (weight[stored] > 0).sum())
            ),
            "dph/log_ratio_max": Metric(AggregationType.MAX, _largest(batch)),
        }


def _loss_batch(model_output: Any, data: TensorDict, stored: Tensor, weight: Tensor) -> LossBatch:
    logprobs = no_padding_2_padding(model_output["log_probs"], data)
    old = data["old_log_probs"].to_padded_tensor(0.0)
    reference = old
    if "ref_log_prob" in data:
        own = data["ref_log_prob"].to_padded_tensor(0.0)
        reference = torch.where(stored[:, None], old, own)
    return LossBatch(
        logprobs=logprobs,
        old_logprobs=old,
        ref_logprobs=reference,
        mask=data["response_mask"].to_padded_tensor(0).bool(),
        advantages=torch.zeros_like(weight),
        source=stored.long(),
        weights=weight,
    )


def _largest(batch: LossBatch) -> float:
    """Largest |log pi - log pi_ref| of the stored answers' tokens, nats."""
    mask = batch.mask_of(1)
    distance = (batch.logprobs.detach() - batch.ref_logprobs).abs()
    return float(torch.where(mask, distance, 0.0).max())
