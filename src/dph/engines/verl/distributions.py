"""Stored next-token distributions in verl's batches, and the divergence where verl has logits.

verl gives a loss the log-probs of sampled tokens. Its FSDP engines also call the loss with the
logits of a micro-batch, before they drop them, where the batch says ``distillation_use_topk``
(verl's own distillation reads a teacher's tokens there). What the loss returns then, a number for
each position, comes back with the log-probs: so stored rows need no forward of their own.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from tensordict import TensorDict
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dph.engines.verl.tensors import STORED, jagged
from dph.loss.divergences import DistributionDivergence
from dph.loss.objectives import Anchor
from dph.model.forward.buckets import bucket_logprobs
from dph.runs.presample.distributions import DistributionSample
from dph.runs.train.rows import StoredRow
from dph.runs.train.targets import target_buckets

SWITCH = "distillation_use_topk"
"""verl's name in a batch for: call the loss with logits."""

TARGETS = ("dph_target_ids", "dph_targets")
"""The fields of a row's buckets, flat: the tokens at each of its positions, and their log-probs
with that of the rest. All rows of an update have as many at a position (``target_buckets``)."""

VALUES = "dph_distribution_values"
"""What comes back with the log-probs: the divergence at the positions of stored distributions."""


def target_rows(samples: Sequence[StoredRow]) -> dict[str, Tensor]:
    """The fields ``TARGETS`` of the stored rows of an update; a single 0 for those without."""
    told = [sample for sample in samples if isinstance(sample, DistributionSample)]
    buckets = target_buckets(told)
    lengths = [len(sample.completion_ids) for sample in told]
    pieces = zip(
        torch.split(buckets.ids, lengths), torch.split(buckets.targets, lengths), strict=True
    )
    rows = [
        [piece.flatten() for piece in next(pieces)]
        if isinstance(sample, DistributionSample)
        else _nothing()
        for sample in samples
    ]
    return _columns(rows)


def no_targets(rows: int) -> dict[str, Tensor]:
    """The fields ``TARGETS`` of rows that the policy drew."""
    return _columns([_nothing()] * rows)


def values_at_logits(
    logits: Float[Tensor, "1 positions vocabulary"], data: TensorDict, anchors: Sequence[Anchor]
) -> Mapping[str, Tensor]:
    """The divergence at every position of a micro-batch that has a target, 0 elsewhere.

    ``logits`` are those of all rows' tokens, row after row, at the training temperature. A copy
    of those at stored positions is kept for the gradient; all else is computed again for it.
    """
    starts = data["input_ids"].offsets()[:-1]
    prompts, lengths = data["prompts"].offsets().diff(), data["responses"].offsets().diff().tolist()
    columns = [data[name].unbind() for name in TARGETS]
    values = torch.zeros(logits.shape[1], device=logits.device)
    for source, anchor in enumerate(anchors, start=1):
        rows = (data[STORED] == source).nonzero().flatten().tolist()
        if not rows or not isinstance(anchor.divergence, DistributionDivergence):
            continue
        # The logits at a token are about the next one.
        first = (starts + prompts - 1).tolist()
        where = torch.cat(
            [torch.arange(first[r], first[r] + lengths[r], device=logits.device) for r in rows]
        )
        ids, targets = (
            torch.cat([column[r].view(lengths[r], -1) for r in rows]) for column in columns
        )
        found = checkpoint(
            _divergence, logits[0, where], ids, targets, anchor.divergence, use_reentrant=False
        )
        values = values.index_put((where,), found)
    return {VALUES: values[None]}


def _divergence(
    logits: Tensor, ids: Tensor, targets: Tensor, divergence: DistributionDivergence
) -> Tensor:
    table = logits.float().log_softmax(-1)
    return divergence.over_buckets(targets, bucket_logprobs(table, ids))


def _nothing() -> list[Tensor]:
    # Not empty: a jagged tensor of empty rows has no longest one.
    return [torch.zeros(1, dtype=torch.int64), torch.zeros(1)]


def _columns(rows: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
    return {name: jagged([row[i] for row in rows]) for i, name in enumerate(TARGETS)}
