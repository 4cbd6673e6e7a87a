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

from dph.loss.divergences import DistributionDivergence
from dph.loss.objectives import Anchor
from dph.model.forward.over_vocabulary import bucket_logprobs
from dph.runs.presample.tables import DistributionSample
from dph.runs.train.loss_batch import target_buckets
from dph.runs.train.rows import StoredRow, length_of, written_of

# Rows as verl's training workers take them: jagged tensors, one for each field.

STORED = "dph_stored"
"""0 for a row of the policy, else the number of the stored answer's anchor, from 1."""

SCALES = ("dph_weight", "dph_policy_tokens", "dph_policy_scale")
"""The fields of ``RowScales``, in their order."""


def jagged(rows: Sequence[Tensor]) -> Tensor:
    """One jagged tensor of rows of different lengths."""
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def answer_rows(
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    written: Sequence[Sequence[bool] | None] | None = None,
) -> TensorDict:
    """Inputs of a forward pass for given answers; ``written``: the tokens that count, or all."""
    pairs = list(zip(prompts, completions, strict=True))
    whole = [torch.tensor([*prompt, *completion]) for prompt, completion in pairs]
    flags = zip(completions, written or [None] * len(pairs), strict=True)
    mask = jagged([torch.tensor(mine or [True] * len(row)).long() for row, mine in flags])
    return TensorDict(
        {
            "input_ids": jagged(whole),
            "position_ids": jagged([torch.arange(len(row)) for row in whole]),
            "prompts": jagged([torch.tensor(prompt) for prompt in prompts]),
            "responses": jagged([torch.tensor(completion) for completion in completions]),
            "response_mask": mask,
            "loss_mask": mask,
        },
        batch_size=len(pairs),
    )


def stored_rows(
    samples: Sequence[StoredRow],
    optional: Sequence[str] = (),
    *,
    sources: Sequence[int] | None = None,
) -> TensorDict:
    """Stored answers with every field that an update of the actor reads.

    ``old_log_probs`` are the stored reference log-probs, advantages 0. ``optional`` names fields
    that the policy's rows have beside: ``ref_log_prob`` and ``rollout_is_weights``.
    ``sources`` are the numbers of their anchors; by default there is one.
    """
    written = [written_of(sample) for sample in samples]
    rows = answer_rows(
        [s.prompt_ids for s in samples], [s.completion_ids for s in samples], written
    )
    reference = [spread(s.ref_logprobs, mine) for s, mine in zip(samples, written, strict=True)]
    rows["old_log_probs"] = jagged(reference)
    rows["advantages"] = jagged([torch.zeros_like(row) for row in reference])
    if "ref_log_prob" in optional:
        rows["ref_log_prob"] = jagged(reference)
    if "rollout_is_weights" in optional:
        rows["rollout_is_weights"] = jagged([torch.ones_like(row) for row in reference])
    rows[STORED] = torch.tensor(sources or [1] * len(samples), dtype=torch.int64)
    return rows


def spread(values: Sequence[float], written: Sequence[bool] | None) -> Tensor:
    """Values of a row's written tokens at their places in the row, 0 between them."""
    found = torch.tensor(values)
    if written is None:
        return found
    mask = torch.tensor(written)
    return torch.zeros(len(mask)).masked_scatter(mask, found)


def gated(values: Tensor, rows: Tensor) -> Tensor:
    """A jagged tensor with all rows but the chosen ones set to 0."""
    offsets: Tensor = values.offsets()  # type: ignore[attr-defined]
    lengths = offsets.diff()
    gate = torch.repeat_interleave(rows.to(values.dtype), lengths)
    # Without the longest length a later padding goes up to the length of all rows together.
    return torch.nested.nested_tensor_from_jagged(
        values.values() * gate,
        offsets,
        min_seqlen=int(lengths.min()),
        max_seqlen=int(lengths.max()),
    )


SWITCH = "distillation_use_topk"
"""verl's name in a batch for: call the loss with logits."""

TARGETS = ("dph_target_ids", "dph_targets")
"""The fields of a row's buckets, flat: the tokens at each of its positions, and their log-probs
with that of the rest. All rows of an update have as many at a position (``target_buckets``)."""

VALUES = "dph_distribution_values"
"""Key that comes back with the log-probs: the divergence at positions of stored distributions."""


def target_rows(samples: Sequence[StoredRow]) -> dict[str, Tensor]:
    """The fields ``TARGETS`` of the stored rows of an update; a single 0 for those without."""
    told = [sample for sample in samples if isinstance(sample, DistributionSample)]
    buckets = target_buckets(told)
    lengths = [length_of(sample) for sample in told]
    pieces = zip(
        torch.split(buckets.ids, lengths), torch.split(buckets.targets, lengths), strict=True
    )
    rows = [
        [piece.flatten() for piece in _everywhere(sample, *next(pieces))]
        if isinstance(sample, DistributionSample)
        else _nothing()
        for sample in samples
    ]
    return _columns(rows)


def _everywhere(sample: DistributionSample, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The buckets at every token of a row; the loss masks those that the policy did not write."""
    if sample.written is None:
        return ids, targets
    own = torch.tensor(sample.written)
    all_ids = ids.new_zeros(len(own), ids.shape[1])
    all_targets = targets.new_full((len(own), targets.shape[1]), float("-inf"))
    all_targets[:, -1] = 0.0  # all of the mass on the rest, so that nothing is infinite
    all_ids[own], all_targets[own] = ids, targets
    return all_ids, all_targets


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
