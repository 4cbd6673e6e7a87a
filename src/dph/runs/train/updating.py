"""One optimizer step: the mixed loss over a mini-batch, accumulated over micro-batches."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor
from transformers import PreTrainedModel

from dph._base.files import write_json
from dph.errors import DataError
from dph.loss.objectives import POLICY, LossBatch, MixedLoss, Objective, mixed_loss, row_weights
from dph.model.forward.logprobs import RowStatistic, completion_scores, spread
from dph.model.forward.packing import Microbatch, to_device
from dph.model.forward.scorer import AnswerScorer, next_tokens
from dph.model.forward.sharing import Sharing, plan_microbatches
from dph.model.loading import autocast
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import Minibatch, PolicyRow, WeightedRow, length_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingForward(AnswerScorer):
    """The policy, and how it scores rows.

    ``reference`` is the initial policy if a term compares whole distributions with it.
    """

    model: PreTrainedModel
    max_tokens: int
    reference: PreTrainedModel | None = None


@dataclass(frozen=True, slots=True)
class LogprobGap:
    """Differences over tokens, in nats."""

    mean: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """The terms of one mini-batch's loss (nats), and counts of its rows and tokens.

    ``rows`` took part, ``packed`` of them in one sequence with rows that begin alike; for their
    ``row_tokens`` the model computed ``computed_tokens``. ``skipped`` rows cannot move the loss, or
    (``masked``) are left out of it. ``penalties`` and ``anchors`` are by name, before their
    weights. ``gap`` is |log pi - log pi_old| over the policy's tokens, with the old log-probs of
    the rows; None without any token.
    """

    policy: float
    penalties: Mapping[str, float]
    anchors: Mapping[str, float]
    clipped_low: float
    clipped_high: float
    grad_norm: float
    rows: int
    packed: int
    skipped: int
    masked: int
    row_tokens: int
    computed_tokens: int
    gap: LogprobGap | None = None


class NonFiniteLossError(ArithmeticError):
    """A loss or a gradient is not a number; carries the rows it came from."""

    def __init__(self, what: str, rows: Sequence[WeightedRow]) -> None:
        super().__init__(f"the {what} is not finite")
        self.rows = tuple(rows)


def weigh(minibatch: Minibatch, *, objective: Objective, max_tokens: int) -> list[WeightedRow]:
    """The rows of a mini-batch with their weights; each source has its own denominator.

    Rows that cannot move the loss are left out once the weights are known. Masked rows do not
    count in the denominator.
    """
    used = [row for group in minibatch.groups for row in group if not row.masked]
    weighted = _weighted(used, POLICY, objective, max_tokens)
    for source, name in enumerate(objective.anchors, start=1):
        weighted += _weighted(minibatch.stored[name], source, objective, max_tokens)
    return [w for w in weighted if moves_the_loss(w.row, objective)]


def moves_the_loss(row: PolicyRow | RehearsalSample, objective: Objective) -> bool:
    """True if a row can have a gradient: a stored row, or one with an advantage or a penalty."""
    if not isinstance(row, PolicyRow):
        return True
    return not row.masked and (row.advantage != 0 or objective.needs_all_samples)


def _weighted(
    rows: Sequence[PolicyRow | RehearsalSample], source: int, objective: Objective, max_tokens: int
) -> list[WeightedRow]:
    lengths = torch.tensor([length_of(row) for row in rows], dtype=torch.long)
    weights = row_weights(lengths, reduction=objective.reduction, max_tokens=max_tokens)
    return [
        WeightedRow(row=row, weight=float(weight), source=source)
        for row, weight in zip(rows, weights, strict=True)
    ]


def update(
    minibatch: Minibatch,
    forward: TrainingForward,
    optimizer: torch.optim.Optimizer,
    *,
    objective: Objective,
    max_grad_norm: float,
    on_policy: bool = False,
) -> UpdateReport:
    """Accumulate the gradient of the mixed loss and take one optimizer step.

    ``on_policy`` says that the policy is the old one: the old log-probs are then those of the
    gradient pass, without gradient, so that every ratio is exactly 1.

    Computed as: the host waits for the device once, after all gradients and before the step.

    Raises:
        NonFiniteLossError: the loss or the gradient norm is not finite; no step was taken.
    """
    weighted = weigh(minibatch, objective=objective, max_tokens=forward.max_tokens)
    work = _accumulate(weighted, forward, objective, on_policy=on_policy)
    parameters = [p for p in forward.model.parameters() if p.requires_grad]
    for parameter in parameters:
        if parameter.grad is None:  # AdamW still moves a parameter whose gradient is 0
            parameter.grad = torch.zeros_like(parameter)
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    values = iter(torch.stack([*(x for of in work.terms for x in of.values()), norm]).tolist())
    found = [{name: next(values) for name in of} for of in work.terms]
    grad_norm = next(values)
    bad = [r for r, of in zip(work.rows, found, strict=True) if not math.isfinite(of["total"])]
    if bad or not math.isfinite(grad_norm):
        optimizer.zero_grad(set_to_none=True)
        raise NonFiniteLossError(*(("loss", bad[0]) if bad else ("gradient norm", weighted)))
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    sums: defaultdict[str, float] = defaultdict(float)
    for name, value in (term for of in found for term in of.items()):
        sums[name] += value
    new = sum(length_of(w.row) for w in weighted if w.source == POLICY)
    policy_rows = [row for group in minibatch.groups for row in group]
    stored_rows = sum(len(minibatch.stored[name]) for name in objective.anchors)
    return UpdateReport(
        policy=sums["policy"],
        penalties={name: sums[f"penalties.{name}"] for name in objective.penalties},
        anchors={name: sums[f"anchors.{name}"] for name in objective.anchors},
        clipped_low=sums["clipped_low"],
        clipped_high=sums["clipped_high"],
        grad_norm=grad_norm,
        rows=len(weighted),
        packed=work.packed,
        skipped=len(policy_rows) + stored_rows - len(weighted),
        masked=sum(row.masked for row in policy_rows),
        row_tokens=sum(len(w.row.prompt_ids) + len(w.row.completion_ids) for w in weighted),
        computed_tokens=work.tokens,
        gap=LogprobGap(sums["moved"] / new, max(of["moved_most"] for of in found)) if new else None,
    )


class _Accumulated(NamedTuple):
    """Micro-batches with their terms, still on the device; fields as of ``UpdateReport``."""

    rows: list[list[WeightedRow]]
    terms: list[dict[str, Tensor]]
    packed: int
    tokens: int


def _accumulate(
    weighted: Sequence[WeightedRow],
    forward: TrainingForward,
    objective: Objective,
    *,
    on_policy: bool,
) -> _Accumulated:
    """Sum gradients over micro-batches, and wait for none of them."""
    tokens, terms = 0, []
    forward.model.train()
    batches = plan_microbatches(
        forward.model,
        [w.row.prompt_ids for w in weighted],
        [w.row.completion_ids for w in weighted],
        token_budget=forward.token_budget,
        sharing=forward.sharing,
    )
    rows = [[weighted[i] for i in batch.rows] for batch in batches]
    for batch, chunk in zip(batches, rows, strict=True):
        scored = scored_batch(chunk, batch, forward, objective)
        given = scored.rows
        if on_policy:
            given = replace(given, old_logprobs=given.logprobs.detach())
        loss = mixed_loss(given, objective, scored.over_vocabulary)
        torch.autograd.backward(loss.total)
        terms.append(_terms(loss, scored.rows))
        tokens += scored.tokens
    packed = sum(len(batch.rows) for batch in batches if batch.packed)
    return _Accumulated(rows, terms, packed, tokens)


def _terms(loss: MixedLoss, batch: LossBatch) -> dict[str, Tensor]:
    """The terms of a micro-batch, and how far its log-probs are from the old ones."""
    moved = torch.where(
        batch.mask_of(POLICY), (batch.logprobs.detach() - batch.old_logprobs).abs(), 0.0
    )
    terms = {
        "total": loss.total,
        "policy": loss.policy,
        "clipped_low": loss.clipped_low,
        "clipped_high": loss.clipped_high,
        **{f"penalties.{name}": value for name, value in loss.penalties.items()},
        **{f"anchors.{name}": value for name, value in loss.anchors.items()},
        "moved": moved.sum(),
        "moved_most": moved.amax() if moved.numel() else moved.sum(),
    }
    return {name: value.detach() for name, value in terms.items()}


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """A micro-batch for the loss; the model computed ``tokens`` for it.

    ``over_vocabulary``: values of the penalties that see whole distributions, by name.
    """

    rows: LossBatch
    over_vocabulary: Mapping[str, Tensor]
    tokens: int


def scored_batch(
    rows: Sequence[WeightedRow], batch: Microbatch, forward: TrainingForward, objective: Objective
) -> ScoredBatch:
    """The rows of ``batch``, scored, with further inputs that the terms of ``objective`` need.

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
            written=[w.row.written for w in rows],
        )
    over_vocabulary = {}
    if names := list(objective.vocabulary_penalties):
        where = scores.mask & (sent["source"] == POLICY)[:, None]
        columns = scores.statistics[0].unbind(1) if statistics else ()
        over_vocabulary = dict.fromkeys(names, torch.zeros(where.shape, device=where.device))
        if columns:  # else the policy has no row here
            values = (spread(column, where) for column in columns)
            over_vocabulary = dict(zip(names, values, strict=True))
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
            written=[row.written for row in of_policy],
        )

    def columns(table: Tensor, positions: slice) -> Tensor:
        other = None if reference is None else reference.logprobs(positions)
        return torch.stack([p.over_vocabulary(table, other) for p in penalties], dim=1)

    return [RowStatistic(new, columns)]


def _sent_rows(rows: Sequence[WeightedRow], device: torch.device) -> dict[str, Tensor]:
    """The host's values of the rows, by name; NaN for values that a kind of row does not have."""
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
    """A table of ``width`` columns; rows that are shorter end in NaN."""
    table = np.full((len(values), width), np.nan, dtype=np.float32)
    for row, known in zip(table, values, strict=True):
        row[: len(known)] = known
    return table


def save_failed_batch(path: Path, error: NonFiniteLossError, *, step: int) -> None:
    """Write the rows as JSON; numbers that are not finite become strings."""
    write_json(path, {"step": step, "error": str(error), "rows": list(map(_plain, error.rows))})


def _plain(weighted: WeightedRow) -> dict[str, Any]:
    row = weighted.row
    plain: dict[str, Any] = {
        "kind": "policy" if isinstance(row, PolicyRow) else "rehearsal",
        "weight": _number(weighted.weight),
        "prompt_ids": list(row.prompt_ids),
        "completion_ids": list(row.completion_ids),
        **({"written": list(row.written)} if row.written else {}),
        "ref_logprobs": [_number(x) for x in row.ref_logprobs or ()],
    }
    if isinstance(row, PolicyRow):
        return {
            **plain,
            "advantage": _number(row.advantage),
            "old_logprobs": [_number(x) for x in row.old_logprobs],
        }
    return {"problem_id": row.problem_id, **plain}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
