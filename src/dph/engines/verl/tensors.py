"""Rows as verl's training workers take them: jagged tensors, one for each field."""

from collections.abc import Sequence

import torch
from tensordict import TensorDict
from torch import Tensor

from dph.runs.train.rows import StoredRow

STORED = "dph_stored"
"""0 for a row of the policy, else the number of the stored answer's anchor, from 1."""

SCALES = ("dph_weight", "dph_policy_tokens", "dph_policy_scale")
"""The fields of ``RowScales``, in their order."""


def jagged(rows: Sequence[Tensor]) -> Tensor:
    """One jagged tensor of rows of different lengths."""
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def answer_rows(
    prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]
) -> TensorDict:
    """What a forward needs of given answers."""
    pairs = list(zip(prompts, completions, strict=True))
    whole = [torch.tensor([*prompt, *completion]) for prompt, completion in pairs]
    ones = [torch.ones(len(completion), dtype=torch.int64) for completion in completions]
    return TensorDict(
        {
            "input_ids": jagged(whole),
            "position_ids": jagged([torch.arange(len(row)) for row in whole]),
            "prompts": jagged([torch.tensor(prompt) for prompt in prompts]),
            "responses": jagged([torch.tensor(completion) for completion in completions]),
            "response_mask": jagged(ones),
            "loss_mask": jagged(ones),
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
    rows = answer_rows([s.prompt_ids for s in samples], [s.completion_ids for s in samples])
    reference = [torch.tensor(s.ref_logprobs) for s in samples]
    rows["old_log_probs"] = jagged(reference)
    rows["advantages"] = jagged([torch.zeros_like(row) for row in reference])
    if "ref_log_prob" in optional:
        rows["ref_log_prob"] = jagged(reference)
    if "rollout_is_weights" in optional:
        rows["rollout_is_weights"] = jagged([torch.ones_like(row) for row in reference])
    rows[STORED] = torch.tensor(sources or [1] * len(samples), dtype=torch.int64)
    return rows


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
