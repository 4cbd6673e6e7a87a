"""One optimizer step: the mixed loss over a mini-batch, accumulated over micro-batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.divergences import Divergence, make_divergence
from dph.forward.logprobs import CompletionScores, completion_scores
from dph.forward.sharing import Microbatch, Sharing, plan_microbatches
from dph.models.modes import autocast
from dph.objectives import LossBatch, MixedLoss, mixed_loss, row_weights
from dph.presampling.pool import RehearsalSample
from dph.settings import ObjectiveSettings
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
    them moves the loss, or (``masked`` of them) because they are left out of it.
    """

    policy: float
    penalty: float
    rehearse: float
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


def chosen_divergence(objective: ObjectiveSettings) -> Divergence | None:
    """The divergence of the rehearsal term; None without one and for the JS definition form."""
    if not objective.rehearses or objective.js_definition:
        return None
    parameters: dict[str, dict[str, object]] = {
        "forward_kl": {"form": objective.forward_kl_form},
        "alpha": {"alpha": objective.alpha},
    }
    return make_divergence(objective.divergence, **parameters.get(objective.divergence, {}))


def weigh(
    minibatch: Minibatch, *, objective: ObjectiveSettings, max_tokens: int
) -> list[WeightedRow]:
    """The rows of a mini-batch with their weights; each kind has its own denominator.

    Rows that cannot move the loss are left out after the weights are known: an advantage of 0
    without a term on policy samples beside it has gradient 0, and so has rehearsal at eta 0.
    Masked rows are no part of the loss: they do not count in the denominator either.
    """
    used = [row for group in minibatch.groups for row in group if not row.masked]
    weighted = _weighted(used, objective, max_tokens)
    if objective.rehearses:
        weighted += _weighted(minibatch.rehearsal, objective, max_tokens)
    return [w for w in weighted if moves_the_loss(w.row, objective)]


def moves_the_loss(row: PolicyRow | RehearsalSample, objective: ObjectiveSettings) -> bool:
    """Whether a row can have a gradient: a stored one, or one with an advantage or a penalty."""
    if isinstance(row, RehearsalSample):
        return True
    return not row.masked and (row.advantage != 0 or objective.needs_reference_model)


def _weighted(
    rows: Sequence[PolicyRow | RehearsalSample],
    objective: ObjectiveSettings,
    max_tokens: int,
) -> list[WeightedRow]:
    lengths = torch.tensor([len(row.completion_ids) for row in rows], dtype=torch.long)
    weights = row_weights(lengths, reduction=objective.reduction, max_tokens=max_tokens)
    return [WeightedRow(row=row, weight=float(w)) for row, w in zip(rows, weights, strict=True)]


def update(
    minibatch: Minibatch,
    forward: TrainingForward,
    optimizer: torch.optim.Optimizer,
    *,
    objective: ObjectiveSettings,
    max_grad_norm: float,
) -> UpdateReport:
    """Accumulate the gradient of the mixed loss and take one optimizer step.

    Raises:
        NonFiniteLossError: the loss or the gradient norm is not finite; no step was taken.
    """
    weighted = weigh(minibatch, objective=objective, max_tokens=forward.max_tokens)
    terms, work = _accumulate(weighted, forward, objective)
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
    return UpdateReport(
        **terms,
        grad_norm=grad_norm,
        rows=len(weighted),
        packed=work.packed,
        skipped=len(policy_rows) + len(minibatch.rehearsal) - len(weighted),
        masked=sum(row.masked for row in policy_rows),
        row_tokens=sum(len(w.row.prompt_ids) + len(w.row.completion_ids) for w in weighted),
        computed_tokens=work.tokens,
    )


class _Computed(NamedTuple):
    """What the model was given: rows that ran packed, and tokens."""

    packed: int
    tokens: int


TERMS = ("policy", "penalty", "rehearse", "clipped_low", "clipped_high")


def _accumulate(
    weighted: Sequence[WeightedRow], forward: TrainingForward, objective: ObjectiveSettings
) -> tuple[dict[str, float], _Computed]:
    """Sum loss terms and gradients over micro-batches."""
    divergence = chosen_divergence(objective)
    terms, tokens = dict.fromkeys(TERMS, 0.0), 0
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
        loss = _loss(rows, scores, objective, divergence)
        if not torch.isfinite(loss.total):
            raise NonFiniteLossError("loss", rows)
        torch.autograd.backward(loss.total)
        for name in TERMS:
            terms[name] += float(getattr(loss, name).detach())
        tokens += scores.computed
    packed = sum(len(batch.rows) for batch in batches if batch.packed)
    return terms, _Computed(packed, tokens)


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


def _loss(
    rows: Sequence[WeightedRow],
    scores: CompletionScores,
    objective: ObjectiveSettings,
    divergence: Divergence | None,
) -> MixedLoss:
    return mixed_loss(
        _loss_batch(rows, scores),
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        kl_coefficient=objective.kl_coefficient,
        kl_estimator=objective.kl_estimator,
        divergence=divergence,
        eta=objective.eta if objective.rehearses else 0.0,
        js_definition=objective.js_definition and objective.rehearses,
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
        is_rehearsal=torch.tensor([w.is_rehearsal for w in rows], device=device),
        weights=torch.tensor([w.weight for w in rows], device=device),
    )


def _padded(values: Sequence[Sequence[float]], *, like: Tensor) -> Tensor:
    padded = torch.full(like.shape, math.nan, dtype=torch.float32)
    for index, row in enumerate(values):
        padded[index, : len(row)] = torch.tensor(row, dtype=torch.float32)
    return padded.to(like.device)
