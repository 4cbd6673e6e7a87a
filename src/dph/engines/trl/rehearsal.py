"""One micro-step of rehearsal: stored answers under the policy, as the objective's own term."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.engines.trl.share import Share
from dph.loss.divergences import DistributionDivergence, Divergence
from dph.loss.objectives import Buckets, LossBatch, anchor_term, weighted_sum
from dph.model.forward.logprobs import completion_scores
from dph.runs.presample.distributions import DistributionSample
from dph.runs.train.loss_batch import bucket_statistics
from dph.runs.train.targets import target_buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """Shares of a step's token means: the divergence with gradient, |log pi - log pi_ref|."""

    loss: Tensor
    log_ratio: Tensor


def rehearse(
    model: PreTrainedModel,
    share: Share,
    divergence: Divergence | DistributionDivergence,
    *,
    temperature: float,
    pad_id: int,
) -> Rehearsed:
    """Score the stored answers with the training forward and reduce the divergence over them.

    Where they have next-token distributions, the same forward gives the policy's log-probs of the
    tokens that those tell apart, and of all others together.
    """
    samples = [row for row in share.rows if isinstance(row, DistributionSample)]
    targets = target_buckets(samples) if samples else None
    held = torch.tensor([isinstance(row, DistributionSample) for row in share.rows])
    scores = completion_scores(
        model,
        [row.prompt_ids for row in share.rows],
        [row.completion_ids for row in share.rows],
        temperature=temperature,
        pad_id=pad_id,
        statistics=bucket_statistics(targets, held, model),
    )
    now, device = scores.logprobs, scores.logprobs.device
    reference = _padded([row.ref_logprobs for row in share.rows], like=now)
    batch = LossBatch(
        logprobs=now,
        old_logprobs=now.detach(),  # not used: there are no new samples here
        ref_logprobs=reference,
        mask=scores.mask,
        advantages=torch.zeros(len(share.rows), device=device),
        source=torch.ones(len(share.rows), dtype=torch.long, device=device),
        weights=torch.tensor(share.weights, device=device),
    )
    buckets = None
    if targets is not None:
        (found,) = scores.statistics
        buckets = Buckets(rows=held.to(device), targets=targets.targets.to(device), logprobs=found)
    gap = (now.detach() - reference).abs()
    return Rehearsed(
        loss=anchor_term(batch, divergence, buckets=buckets),
        log_ratio=weighted_sum(gap, scores.mask, batch.weights),
    )


def _padded(values: Sequence[Sequence[float]], *, like: Tensor) -> Tensor:
    padded = torch.zeros(like.shape, dtype=torch.float32)
    for index, row in enumerate(values):
        padded[index, : len(row)] = torch.tensor(row)
    return padded.to(like.device)
