"""One optimizer step: the mixed loss over a mini-batch, accumulated over micro-batches."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from dph.loss.divergences import DistributionDivergence
from dph.loss.objectives import POLICY, MixedLoss, Objective, mixed_loss, row_weights
from dph.model.forward.sharing import plan_microbatches
from dph.runs.train.choices import chosen_tokens
from dph.runs.train.loss_batch import TrainingForward, scored_batch
from dph.runs.train.rows import Minibatch, PolicyRow, StoredRow, WeightedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """The terms of one mini-batch's loss (nats) and what was done with them.

    ``rows`` took part, of those ``packed`` in one sequence with what they share; for their
    ``row_tokens`` the model computed ``computed_tokens``. ``skipped`` did not, because nothing in
    them moves the loss, or (``masked`` of them) because they are left out of it. ``penalties`` and
    ``anchors`` are by name, before their weights. ``counting`` is, for anchors on distributions,
    the share of their rows that counted; ``weights`` are those of anchors that adapt theirs.
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
    counting: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


class NonFiniteLossError(ArithmeticError):
    """A loss or a gradient is not a number; carries the rows it came from."""

    def __init__(self, what: str, rows: Sequence[WeightedRow]) -> None:
        super().__init__(f"the {what} is not finite")
        self.rows = tuple(rows)


def weigh(minibatch: Minibatch, *, objective: Objective, max_tokens: int) -> list[WeightedRow]:
    """The rows of a mini-batch with their weights; each source has its own denominator.

    Rows that cannot move the loss are left out after the weights are known: an advantage of 0
    without a term on policy samples beside it has gradient 0. Masked rows are not in the loss:
    they do not count in the denominator either.
    """
    used = [row for group in minibatch.groups for row in group if not row.masked]
    weighted = _weighted(used, POLICY, objective, max_tokens)
    for source, name in enumerate(objective.anchors, start=1):
        weighted += _weighted(minibatch.stored[name], source, objective, max_tokens)
    return [w for w in weighted if moves_the_loss(w.row, objective)]


def moves_the_loss(row: PolicyRow | StoredRow, objective: Objective) -> bool:
    """Whether a row can have a gradient: a stored one, or one with an advantage or a penalty."""
    if not isinstance(row, PolicyRow):
        return True
    return not row.masked and (row.advantage != 0 or objective.needs_all_samples)


def _weighted(
    rows: Sequence[PolicyRow | StoredRow], source: int, objective: Objective, max_tokens: int
) -> list[WeightedRow]:
    lengths = torch.tensor([len(row.completion_ids) for row in rows], dtype=torch.long)
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
    seed: int = 0,
) -> UpdateReport:
    """Accumulate the gradient of the mixed loss and take one optimizer step.

    ``seed`` is for terms that draw tokens among those of the mini-batch.

    Raises:
        NonFiniteLossError: the loss or the gradient norm is not finite; no step was taken.
    """
    weighted = weigh(minibatch, objective=objective, max_tokens=forward.max_tokens)
    chosen = chosen_tokens(weighted, forward, objective, seed=seed)
    sums, work = _accumulate(weighted, forward, objective, chosen)
    parameters = [p for p in forward.model.parameters() if p.requires_grad]
    for parameter in parameters:
        if parameter.grad is None:  # AdamW still moves a parameter whose gradient is 0
            parameter.grad = torch.zeros_like(parameter)
    grad_norm = float(torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm))
    if not math.isfinite(grad_norm):
        raise NonFiniteLossError("gradient norm", weighted)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
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
        counting=_counting(minibatch, objective, sums),
        weights={n: a.weight for n, a in objective.anchors.items() if a.ascent is not None},
    )


def _counting(
    minibatch: Minibatch, objective: Objective, sums: Mapping[str, float]
) -> dict[str, float]:
    """Of every anchor on distributions the share of its rows that counted."""
    return {
        name: sums[f"counting.{name}"] / max(1, len(minibatch.stored[name]))
        for name, anchor in objective.anchors.items()
        if isinstance(anchor.divergence, DistributionDivergence)
    }


class _Computed(NamedTuple):
    """What the model was given: rows that ran packed, and tokens."""

    packed: int
    tokens: int


def _accumulate(
    weighted: Sequence[WeightedRow],
    forward: TrainingForward,
    objective: Objective,
    chosen: Mapping[str, Tensor],
) -> tuple[Mapping[str, float], _Computed]:
    """Sum loss terms and gradients over micro-batches."""
    sums: defaultdict[str, float] = defaultdict(float)
    tokens = 0
    forward.model.train()
    batches = plan_microbatches(
        forward.model,
        [w.row.prompt_ids for w in weighted],
        [w.row.completion_ids for w in weighted],
        token_budget=forward.token_budget,
        sharing=forward.sharing,
    )
    for batch in batches:
        rows = [weighted[i] for i in batch.rows]
        scored = scored_batch(rows, batch, forward, objective, chosen)
        loss = mixed_loss(scored.rows, objective, scored.beside)
        if not torch.isfinite(loss.total):
            raise NonFiniteLossError("loss", rows)
        torch.autograd.backward(loss.total)
        for name, value in _terms(loss):
            sums[name] += float(value.detach())
        tokens += scored.tokens
    packed = sum(len(batch.rows) for batch in batches if batch.packed)
    return sums, _Computed(packed, tokens)


def _terms(loss: MixedLoss) -> Iterator[tuple[str, Tensor]]:
    yield "policy", loss.policy
    yield "clipped_low", loss.clipped_low
    yield "clipped_high", loss.clipped_high
    yield from ((f"penalties.{name}", value) for name, value in loss.penalties.items())
    yield from ((f"anchors.{name}", value) for name, value in loss.anchors.items())
    yield from ((f"counting.{name}", value) for name, value in loss.counting.items())
