"""Rows as verl's training workers take them: jagged tensors, one for each field."""

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from dph.runs.presample.tables import RehearsalSample

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
    samples: Sequence[RehearsalSample],
    optional: Sequence[str] = (),
    *,
    sources: Sequence[int] | None = None,
) -> TensorDict:
    """Stored answers with every field that an update of the actor reads.

    ``old_log_probs`` are the stored reference log-probs, advantages 0. ``optional`` names fields
    that the policy's rows have beside: ``ref_log_prob`` and ``rollout_is_weights``.
    ``sources`` are the numbers of their anchors; by default there is one.
    """
    written = [sample.written for sample in samples]
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
