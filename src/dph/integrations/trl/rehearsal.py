"""The rehearsal term of one micro-step: stored answers under the policy, reduced."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.divergences import Divergence
from dph.integrations.trl.share import Share
from dph.models.logprobs import completion_scores
from dph.objectives import weighted_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalTerm:
    """Shares of a step's token means: f(pi / pi_ref) with gradient, |log pi - log pi_ref|."""

    loss: Tensor
    log_ratio: Tensor


def rehearsal_term(
    model: PreTrainedModel,
    share: Share,
    divergence: Divergence,
    *,
    temperature: float,
    pad_id: int,
) -> RehearsalTerm:
    """Score the stored answers with the training forward and reduce the divergence over them."""
    scores = completion_scores(
        model,
        [row.prompt_ids for row in share.rows],
        [row.completion_ids for row in share.rows],
        temperature=temperature,
        pad_id=pad_id,
    )
    reference = _padded([row.ref_logprobs for row in share.rows], like=scores.logprobs)
    # Both are 0 outside the mask, so the log-ratio is too.
    log_ratio = scores.logprobs - reference
    weights = torch.tensor(share.weights, device=scores.logprobs.device)
    return RehearsalTerm(
        loss=weighted_sum(divergence(log_ratio), scores.mask, weights),
        log_ratio=weighted_sum(log_ratio.detach().abs(), scores.mask, weights),
    )


def _padded(values: Sequence[Sequence[float]], *, like: Tensor) -> Tensor:
    padded = torch.zeros(like.shape, dtype=torch.float32)
    for index, row in enumerate(values):
        padded[index, : len(row)] = torch.tensor(row)
    return padded.to(like.device)
