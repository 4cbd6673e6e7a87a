"""One optimizer step: the mixed loss over a mini-batch, accumulated over micro-batches."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.forward.logprobs import CompletionScores, completion_scores
from dph.forward.sharing import Microbatch, Sharing, plan_microbatches
from dph.models.modes import autocast
from dph.objectives import POLICY, LossBatch, MixedLoss, Objective, mixed_loss, row_weights
from dph.presampling.pool import RehearsalSample
from dph.training.rows import Minibatch, PolicyRow, WeightedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingForward:
    """How the policy scores its rows."""

    model: PreTrainedModel
    pad_id: int
    temperature: float
    dtype: str
    token_budget: int
    max_tokens: int
    sharing: Sharing = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateReport:
    """The terms of one mini-batch's loss (nats) and what was done with them.

    ``rows`` took part, of those ``packed`` in one sequence with what they share; for their
    ``row_tokens`` the model computed ``computed_tokens``. ``skipped`` did not, because nothing in
    them moves the loss, or (``masked`` of them) because they are left out of it. ``penalties`` and
    ``anchors`` are by name, before their weights.
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


def moves_the_loss(row: PolicyRow | RehearsalSample, objective: Objective) -> bool:
    """Whether a row can have a gradient: a stored one, or one with an advantage or a penalty."""
    if isinstance(row, RehearsalSample):
        return True
    return not row.masked and (row.advantage != 0 or objective.needs_all_samples)


def _weighted(
    rows: Sequence[PolicyRow | RehearsalSample], source: int, objective: Objective, max_tokens: int
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
) -> UpdateReport:
    """Accumulate the gradient of the mixed loss and take one optimizer step.

    Raises:
        NonFiniteLossError: the loss or the gradient norm is not finite; no step was taken.
    """
    weighted = weigh(minibatch, objective=objective, max_tokens=forward.max_tokens)
    sums, work = _accumulate(weighted, forward, objective)
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
    )


class _Computed(NamedTuple):
    """What the model was given: rows that ran packed, and tokens."""

    packed: int
    tokens: int


def _accumulate(
    weighted: Sequence[WeightedRow], forward: TrainingForward, objective: Objective
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
        scores = _scores(rows, batch, forward)
        loss = mixed_loss(_loss_batch(rows, scores), objective)
        if not torch.isfinite(loss.total):
            raise NonFiniteLossError("loss", rows)
        torch.autograd.backward(loss.total)
        for name, value in _terms(loss):
            sums[name] += float(value.detach())
        tokens += scores.computed
    packed = sum(len(batch.rows) for batch in batches if batch.packed)
    return sums, _Computed(packed, tokens)


def _terms(loss: MixedLoss) -> Iterator[tuple[str, Tensor]]:
    yield "policy", loss.policy
    yield "clipped_low", loss.clipped_low
    yield "clipped_high", loss.clipped_high
    yield from ((f"penalties.{name}", value) for name, value in loss.penalties.items())
    yield from ((f"anchors.{name}", value) for name, value in loss.anchors.items())


def _scores(
    rows: Sequence[WeightedRow], batch: Microbatch, forward: TrainingForward
) -> CompletionScores:
    with autocast(forward.model, forward.dtype):
        return completion_scores(
            forward.model,
            [w.row.prompt_ids for w in rows],
            [w.row.completion_ids for w in rows],
            temperature=forward.temperature,
            pad_id=forward.pad_id,
            sharing=batch.sharing,
            forest=batch.forest,
        )


def _loss_batch(rows: Sequence[WeightedRow], scores: CompletionScores) -> LossBatch:
    """Targets beside the scores; entries that a kind of row does not have are NaN."""
    nan = math.nan
    old = [() if isinstance(w.row, RehearsalSample) else w.row.old_logprobs for w in rows]
    advantages = [nan if isinstance(w.row, RehearsalSample) else w.row.advantage for w in rows]
    device = scores.logprobs.device
    return LossBatch(
        logprobs=scores.logprobs,
        old_logprobs=_padded(old, like=scores.logprobs),
        ref_logprobs=_padded([w.row.ref_logprobs or () for w in rows], like=scores.logprobs),
        mask=scores.mask,
        advantages=torch.tensor(advantages, device=device),
        source=torch.tensor([w.source for w in rows], device=device),
        weights=torch.tensor([w.weight for w in rows], device=device),
    )


def _padded(values: Sequence[Sequence[float]], *, like: Tensor) -> Tensor:
    padded = torch.full(like.shape, math.nan, dtype=torch.float32)
    for index, row in enumerate(values):
        padded[index, : len(row)] = torch.tensor(row, dtype=torch.float32)
    return padded.to(like.device)
