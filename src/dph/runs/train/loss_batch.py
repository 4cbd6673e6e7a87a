"""The rows of a micro-batch, scored: what the loss is computed from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor
from transformers import PreTrainedModel

from dph.errors import DataError
from dph.loss.objectives import POLICY, LossBatch, Objective
from dph.model.forward.logprobs import RowStatistic, completion_scores, spread
from dph.model.forward.packing import Microbatch, to_device
from dph.model.forward.scorer import AnswerScorer, next_tokens
from dph.model.forward.sharing import Sharing
from dph.model.loading import autocast
from dph.runs.train.rows import PolicyRow, WeightedRow, length_of, written_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingForward(AnswerScorer):
    """Scores of a batch under the policy, and under other models.

    ``reference`` is the initial policy, where a term compares whole distributions with its own.
    """

    model: PreTrainedModel
    max_tokens: int
    reference: PreTrainedModel | None = None


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """A micro-batch for the loss; the model computed ``tokens`` for it.

    ``over_vocabulary`` holds the values of the penalties that see whole distributions, by name.
    """

    rows: LossBatch
    over_vocabulary: Mapping[str, Tensor]
    tokens: int


def scored_batch(
    rows: Sequence[WeightedRow],
    batch: Microbatch,
    forward: TrainingForward,
    objective: Objective,
) -> ScoredBatch:
    """Score the rows of ``batch``, with further inputs that the terms of ``objective`` need.

    On CUDA the host waits for nothing: its tables are sent in one copy.
    """
    new = torch.tensor([w.source == POLICY for w in rows])
    sent = _sent_rows(rows, forward.model.device)
    with autocast(forward.model, forward.dtype):
        statistics = _of_policy(rows, new, batch.sharing, forward, objective)
        scores = completion_scores(
            forward.model,
            [w.row.prompt_ids for w in rows],
            [w.row.completion_ids for w in rows],
            temperature=forward.temperature,
            pad_id=forward.pad_id,
            sharing=batch.sharing,
            forest=batch.forest,
            statistics=statistics,
            written=[written_of(w.row) for w in rows],
        )
    over_vocabulary = {}
    if objective.vocabulary_penalties:
        values = scores.statistics[0].unbind(1) if statistics else ()
        where = scores.mask & (sent["source"] == POLICY)[:, None]
        over_vocabulary = _by_name(list(objective.vocabulary_penalties), values, where)
    return ScoredBatch(
        rows=LossBatch(logprobs=scores.logprobs, mask=scores.mask, **sent),
        over_vocabulary=over_vocabulary,
        tokens=scores.computed,
    )


def _of_policy(
    rows: Sequence[WeightedRow],
    new: Bool[Tensor, "rows"],
    sharing: Sharing,
    forward: TrainingForward,
    objective: Objective,
) -> list[RowStatistic]:
    """One column for each penalty that sees the distributions of new samples."""
    penalties = list(objective.vocabulary_penalties.values())
    if not penalties or not new.any():
        return []
    reference = None
    if objective.reads_reference_tables:
        if forward.reference is None:
            raise DataError("a penalty needs the initial policy, which is not loaded")
        of_policy = [w.row for w in rows if w.source == POLICY]
        reference = next_tokens(
            forward.reference,
            [row.prompt_ids for row in of_policy],
            [row.completion_ids for row in of_policy],
            temperature=forward.temperature,
            pad_id=forward.pad_id,
            sharing=sharing,
            written=[written_of(row) for row in of_policy],
        )

    def columns(table: Tensor, positions: slice) -> Tensor:
        other = None if reference is None else reference.logprobs(positions)
        return torch.stack([p.over_vocabulary(table, other) for p in penalties], dim=1)

    return [RowStatistic(new, columns)]


def _by_name(
    names: Sequence[str], values: Sequence[Tensor], where: Bool[Tensor, "rows tokens"]
) -> dict[str, Tensor]:
    """The values of the policy's tokens in their places; zeros where it has no row here."""
    if not values:
        return dict.fromkeys(names, torch.zeros(where.shape, device=where.device))
    return {name: spread(column, where) for name, column in zip(names, values, strict=True)}


def _sent_rows(rows: Sequence[WeightedRow], device: torch.device) -> dict[str, Tensor]:
    """All that the host knows of the rows, by name; what a kind of row does not have is NaN."""
    width = max(length_of(w.row) for w in rows)
    old = [w.row.old_logprobs if isinstance(w.row, PolicyRow) else () for w in rows]
    advantages = [w.row.advantage if isinstance(w.row, PolicyRow) else math.nan for w in rows]
    tables: dict[str, np.ndarray[Any, Any]] = {
        "old_logprobs": padded(old, width),
        "ref_logprobs": padded([w.row.ref_logprobs or () for w in rows], width),
        "advantages": np.array(advantages, dtype=np.float32),
        "source": np.array([w.source for w in rows], dtype=np.int64),
        "weights": np.array([w.weight for w in rows], dtype=np.float32),
    }
    return dict(zip(tables, to_device([*tables.values()], device), strict=True))


def padded(values: Sequence[Sequence[float]], width: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Rows of different lengths as a table of ``width`` columns, NaN where they have nothing."""
    table = np.full((len(values), width), np.nan, dtype=np.float32)
    for row, known in zip(table, values, strict=True):
        row[: len(known)] = known
    return table
