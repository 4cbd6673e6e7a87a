"""Rows as verl's training workers take them, and log-probs of rows by its training engine.

A field is a jagged tensor. The engine's forward is the one that the loss will see.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from dph.errors import SettingsError
from dph.runs.presample.tables import RehearsalSample

STORED = "dph_stored"
"""0 for a row of the policy, else the number of the stored answer's anchor, from 1."""

SCALES = ("dph_weight", "dph_policy_scale")
"""The fields of ``RowScales``, in their order."""


def jagged(rows: Sequence[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)


def answer_rows(
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    written: Sequence[Sequence[bool] | None] | None = None,
) -> TensorDict:
    """Inputs of a forward pass for given answers; only ``written`` tokens count, if given."""
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

    ``old_log_probs`` are the stored reference log-probs, advantages 0. ``optional`` names further
    fields that the policy's rows have: ``ref_log_prob`` and ``rollout_is_weights``. ``sources`` are
    the numbers of their anchors; by default there is one.
    """
    written = [sample.written for sample in samples]
    rows = answer_rows(
        [s.prompt_ids for s in samples], [s.completion_ids for s in samples], written
    )
    reference = [spread(s.ref_logprobs, mine) for s, mine in zip(samples, written, strict=True)]
    rows["old_log_probs"] = jagged(reference)
    # verl divides its policy term by the ``loss_mask`` of a mini-batch: here by the policy's alone.
    rows["loss_mask"] = jagged([torch.zeros(len(row), dtype=torch.int64) for row in reference])
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


_PARTITION = "dph"
_ROWS = 1024
"""Rows in the transfer queue at a time."""


class EngineForward:
    """``compute_log_prob`` of a worker group, for rows that come from elsewhere.

    Args:
        actors: verl's worker group.
        config: the run's configuration; its temperature is the only one to be asked for.
    """

    def __init__(self, actors: Any, config: DictConfig) -> None:
        rollout = config.actor_rollout_ref.rollout
        self._actors, self._temperature = actors, float(rollout.temperature)
        # verl wants micro-batches of a fixed size to divide a rank's rows.
        fixed = not rollout.log_prob_use_dynamic_bsz
        self._multiple = int(rollout.log_prob_micro_batch_size_per_gpu) if fixed else 1

    def __call__(
        self,
        prompts: Sequence[tuple[int, ...]],
        completions: Sequence[tuple[int, ...]],
        *,
        temperature: float,
    ) -> list[tuple[float, ...]]:
        """Nats, one for each token of every completion; only at the temperature of the engine."""
        if temperature != self._temperature:
            raise SettingsError(
                f"the engine runs at rollout.temperature={self._temperature}, got {temperature}"
            )
        scores: list[tuple[float, ...]] = []
        for start in range(0, len(prompts), _ROWS):
            part = slice(start, start + _ROWS)
            scores += self._part(prompts[part], completions[part])
        return scores

    def _part(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        ranks = max(self._actors._query_dispatch_info("actor")) + 1
        pairs = list(zip(prompts, completions, strict=True))
        shortest = min(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
        pairs += [shortest] * (-len(pairs) % (ranks * self._multiple))
        rows = answer_rows([prompt for prompt, _ in pairs], [answer for _, answer in pairs])
        keys = [f"{uuid4().hex}_{i}_0" for i in range(len(rows))]
        tags = [{"status": "success", "seq_len": len(row)} for row in rows["input_ids"].unbind()]
        tq.kv_batch_put(keys=keys, partition_id=_PARTITION, fields=rows, tags=tags)
        request = KVBatchMeta(
            partition_id=_PARTITION,
            keys=keys,
            tags=tags,
            fields=list(rows.keys()),
            extra_info={
                "calculate_entropy": False,
                "compute_loss": False,
                "temperature": self._temperature,
            },
        )
        try:
            self._actors.compute_log_prob(request)
            found = tq.kv_batch_get(
                keys=keys, partition_id=_PARTITION, select_fields=["log_probs"]
            )["log_probs"].unbind()
        finally:
            tq.kv_clear(keys=keys, partition_id=_PARTITION)
        # The filling comes last. Position t of the engine holds the log-prob of token t + 1.
        return [
            tuple(row[len(prompt) - 1 : len(prompt) + len(completion) - 1].float().tolist())
            for row, prompt, completion in zip(found, prompts, completions, strict=False)
        ]
