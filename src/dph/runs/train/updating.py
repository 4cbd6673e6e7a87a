"""One optimizer step: the mixed loss over a mini-batch, accumulated over micro-batches."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from dph._base.files import write_json
from dph._base.randomness import derived_seed
from dph.loss.divergences import DistributionDivergence
from dph.loss.objectives import (
    POLICY,
    LossBatch,
    MixedLoss,
    Objective,
    mixed_loss,
    policy_tokens,
    row_weights,
)
from dph.model.forward.sharing import plan_microbatches
from dph.runs.presample.tables import DistributionSample
from dph.runs.train.loss_batch import TrainingForward, padded, scored_batch
from dph.runs.train.rows import (
    Minibatch,
    PolicyRow,
    StoredRow,
    WeightedRow,
    length_of,
    written_of,
)

# Tokens that terms choose among all of a mini-batch, before it is cut into micro-batches.


def chosen_tokens(
    weighted: Sequence[WeightedRow], forward: TrainingForward, objective: Objective, *, seed: int
) -> Mapping[str, Bool[Tensor, "rows tokens"]]:
    """For each term that chooses, which tokens of which rows of the mini-batch.

    Computed as: one forward over the new samples without gradient, where a term chooses at all.
    """
    rows = [w.row for w in weighted if isinstance(w.row, PolicyRow)]
    if not objective.choosing or not rows:
        return {}
    logprobs = forward.logprobs(
        forward.model,
        [row.prompt_ids for row in rows],
        [row.completion_ids for row in rows],
        written=[row.written for row in rows],
    )
    batch = _whole(rows, logprobs)
    width = max(length_of(w.row) for w in weighted)
    places = [i for i, w in enumerate(weighted) if w.source == POLICY]
    chosen = {}
    for name, term in objective.choosing.items():
        where = torch.zeros(len(weighted), width, dtype=torch.bool)
        where[places, : batch.mask.shape[1]] = term.choose(
            policy_tokens(batch), derived_seed(seed, name)
        )
        chosen[name] = where.to(forward.model.device)
    return chosen


def _whole(rows: Sequence[PolicyRow], logprobs: Sequence[Sequence[float]]) -> LossBatch:
    lengths = torch.tensor([length_of(row) for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    like = torch.empty(mask.shape)
    return LossBatch(
        logprobs=padded(logprobs, like=like),
        old_logprobs=padded([row.old_logprobs for row in rows], like=like),
        ref_logprobs=padded([row.ref_logprobs or () for row in rows], like=like),
        mask=mask,
        advantages=torch.tensor([row.advantage for row in rows]),
        source=torch.full((len(rows),), POLICY),
        weights=torch.zeros(len(rows)),
    )


# Weights of anchors that follow a target: what a run starts with, and how they go on.


def first_weights(objective: Objective) -> dict[str, float]:
    """The weight to start from, of every anchor that adapts its own."""
    return {
        name: anchor.weight
        for name, anchor in objective.anchors.items()
        if anchor.ascent is not None
    }


def next_weights(
    objective: Objective,
    weights: Mapping[str, float],
    measured: Mapping[str, float],
    rows: Mapping[str, Sized],
) -> dict[str, float]:
    """The weights after an optimizer step in which the anchors' values were ``measured``.

    A weight stays where the step had no stored ``rows`` of its anchor: nothing was measured.
    """
    return {
        name: anchor.ascent.next(weights[name], measured=measured[name])
        if rows[name]
        else weights[name]
        for name, anchor in objective.anchors.items()
        if anchor.ascent is not None
    }


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
    without a term on policy samples has gradient 0. Masked rows are not in the loss:
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
    """Size of the model's input: rows that ran packed, and tokens."""

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


# What is kept when a loss is not finite: the rows it came from, to be looked at.


def save_failed_batch(path: Path, error: NonFiniteLossError, *, step: int) -> None:
    """Write the rows as JSON; numbers that are not finite become strings."""
    rows = [_plain(weighted) for weighted in error.rows]
    write_json(path, {"step": step, "error": str(error), "rows": rows})


def _plain(weighted: WeightedRow) -> dict[str, Any]:
    row = weighted.row
    plain: dict[str, Any] = {
        "kind": _kind(weighted),
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
    if isinstance(row, DistributionSample):
        plain |= {
            "token_ids": [list(ids) for ids in row.token_ids],
            "target_logprobs": [[_number(x) for x in values] for values in row.logprobs],
            "log_tails": [_number(x) for x in row.log_tails],
        }
    return {"problem_id": row.problem_id, **plain}


def _kind(weighted: WeightedRow) -> str:
    if isinstance(weighted.row, PolicyRow):
        return "policy"
    return "distribution" if isinstance(weighted.row, DistributionSample) else "rehearsal"


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
