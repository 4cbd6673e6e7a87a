"""Log-probs of given answers by verl's training engine: the forward that the loss will see."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import transfer_queue as tq
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta

from dph.engines.verl.rows import answer_rows
from dph.errors import SettingsError

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
        """Nats, one for each token of every completion.

        Raises:
            SettingsError: another temperature than the engine's.
        """
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
        rows = answer_rows(*_filled(prompts, completions, ranks * self._multiple))
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


def _filled(
    prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]], multiple: int
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The rows, and the shortest of them again until their number is right."""
    pairs = list(zip(prompts, completions, strict=True))
    shortest = min(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
    pairs += [shortest] * (-len(pairs) % multiple)
    return [prompt for prompt, _ in pairs], [completion for _, completion in pairs]
