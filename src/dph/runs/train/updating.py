"""One optimizer step: the mixed loss over a mini-batch, accumulated over micro-batches."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dph._base.files import write_json
from dph.loss.objectives import (
    POLICY,
    LossBatch,
    MixedLoss,
    Objective,
    mixed_loss,
    row_weights,
)
from dph.model.forward.sharing import plan_microbatches
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.loss_batch import TrainingForward, scored_batch
from dph.runs.train.rows import (
    Minibatch,
    PolicyRow,
    WeightedRow,
    length_of,
    written_of,
)


@dataclass(frozen=True, slots=True)
class LogprobGap:
    """Differences over tokens, in nats."""

    mean: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """The terms of one mini-batch's loss (nats) and what was done with them.

    ``rows`` took part, of those ``packed`` in one sequence with what they share; for their
    ``row_tokens`` the model computed ``computed_tokens``. ``skipped`` did not, because nothing in
    them moves the loss, or (``masked`` of them) because they are left out of it. ``penalties`` and
    ``anchors`` are by name, before their weights.
    ``gap`` is |log pi - log pi_old| over the policy's tokens, with the old ones that rows hold;
    None without any token.
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

    Rows that cannot move the loss are left out after the weights are known: an advantage of 0
    without a term on policy samples has gradient 0. Masked rows are not in the loss:
    they do not count in the denominator either.
    """
    used = [row for group in minibatch.groups for row in group if not row.masked]
    weighted = _weighted(used, POLICY, objective, max_tokens)
    for source, name in enumerate(objective.anchors, start=1):
        weighted += _weighted(minibatch.stored[name], source, objective, max_tokens)
    return [w for w in weighted if moves_the_loss(w.row, objective)]


def moves_the_loss(row: PolicyRow | RehearsalSample, objective: Objective) -> bool:
    """Whether a row can have a gradient: a stored one, or one with an advantage or a penalty."""
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

    Computed as: the device is waited for once, after all gradients and before the step.

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
    found, grad_norm = _read(work.terms, norm)
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
    most = max((of["moved_most"] for of in found), default=0.0)
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
        gap=LogprobGap(sums["moved"] / new, most) if new else None,
    )


class _Accumulated(NamedTuple):
    """Rows and terms of every micro-batch, and the size of the model's input in all of them.

    Terms are still on the device; ``packed`` rows ran in one sequence with others.
    """

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
        terms.append({n: v.detach() for n, v in (*_terms(loss), *_moved(scored.rows))})
        tokens += scored.tokens
    packed = sum(len(batch.rows) for batch in batches if batch.packed)
    return _Accumulated(rows, terms, packed, tokens)


def _read(
    terms: Sequence[Mapping[str, Tensor]], norm: Tensor
) -> tuple[list[dict[str, float]], float]:
    """All terms and the gradient norm: the one place of an update where the host waits."""
    values = iter(torch.stack([*(x for of in terms for x in of.values()), norm]).tolist())
    return [{name: next(values) for name in of} for of in terms], next(values)


def _moved(batch: LossBatch) -> Iterator[tuple[str, Tensor]]:
    mask = batch.mask_of(POLICY)
    away = torch.where(mask, (batch.logprobs.detach() - batch.old_logprobs).abs(), 0.0)
    yield "moved", away.sum()
    yield "moved_most", away.amax() if away.numel() else away.sum()


def _terms(loss: MixedLoss) -> Iterator[tuple[str, Tensor]]:
    yield "total", loss.total
    yield "policy", loss.policy
    yield "clipped_low", loss.clipped_low
    yield "clipped_high", loss.clipped_high
    yield from ((f"penalties.{name}", value) for name, value in loss.penalties.items())
    yield from ((f"anchors.{name}", value) for name, value in loss.anchors.items())


def save_failed_batch(path: Path, error: NonFiniteLossError, *, step: int) -> None:
    """Write the rows as JSON; numbers that are not finite become strings."""
    rows = [_plain(weighted) for weighted in error.rows]
    write_json(path, {"step": step, "error": str(error), "rows": rows})


def _plain(weighted: WeightedRow) -> dict[str, Any]:
    row = weighted.row
    plain: dict[str, Any] = {
        "kind": "policy" if isinstance(weighted.row, PolicyRow) else "rehearsal",
        "weight": _number(weighted.weight),
        "prompt_ids": list(row.prompt_ids),
        "completion_ids": list(row.completion_ids),
        **({"written": list(written)} if (written := written_of(row)) else {}),
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
