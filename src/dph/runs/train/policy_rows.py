"""The rows of a step: rewards, advantages, old and reference log-probs, and gaps between these."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from dph.errors import PoolError
from dph.loss.objectives import (
    AnyAdvantage,
    GroupSamples,
    Objective,
    graded_advantages,
    overlong_penalty,
    reads_of,
)
from dph.recipe import ObjectiveSettings, TrainingSettings
from dph.recipe.terms import LOGPROBS, REF_LOGPROBS
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.collect import Group
from dph.runs.train.rows import PolicyRow, length_of
from dph.runs.train.updating import LogprobGap, TrainingForward, moves_the_loss


def group_samples(
    groups: Sequence[Group], rows: Sequence[PolicyRow], advantage: AnyAdvantage
) -> GroupSamples | None:
    """Inputs of ``advantage``; None if it reads nothing.

    ``rows`` are the samples of ``groups``, all of one size, group by group. Their old log-probs are
    the sampler's unless all rows were scored before (``policy_rows``).
    """
    reads = reads_of(advantage)
    if not reads:
        return None
    logprobs = lengths = initial = None
    if LOGPROBS in reads:
        logprobs = torch.tensor([sum(row.old_logprobs) for row in rows]).view(len(groups), -1)
        lengths = torch.tensor([max(1, length_of(row)) for row in rows]).view_as(logprobs)
    scored = [row.ref_logprobs for row in rows if row.ref_logprobs is not None]
    if REF_LOGPROBS in reads and len(scored) == len(rows):
        initial = torch.tensor([sum(values) for values in scored]).view(len(groups), -1)
    return GroupSamples(logprobs=logprobs, lengths=lengths, ref_logprobs=initial)


_LOG = logging.getLogger(__name__)

TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}
"""Largest mean difference, in nats a token, that is rounding, with room."""
CHECKED = 1024
"""Stored samples that are looked at, spread evenly: a mean needs no more, a pool may hold 10^5."""


def logprob_gap(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]
) -> LogprobGap | None:
    """Mean and largest distance of two log-probs of each token; None without any token."""
    gaps = [
        abs(a - b)
        for row, same in zip(one, other, strict=True)
        for a, b in zip(row, same, strict=True)
    ]
    return LogprobGap(mean=fmean(gaps), largest=max(gaps)) if gaps else None


def warn_of_gap(gap: LogprobGap | None, *, dtype: str) -> None:
    """Log a warning if the sampler's log-probs are further from the trainer's than rounding.

    The importance ratios are then wrong by as much.
    """
    if gap is not None and not gap.mean <= TOLERANCE[dtype]:
        _LOG.warning(
            "log-probs of sampler and trainer differ by %.2g nats a token (at most %g is "
            "rounding): do both have the same weights, temperature and precision?",
            *(gap.mean, TOLERANCE[dtype]),
        )


def checked(samples: Sequence[RehearsalSample]) -> list[RehearsalSample]:
    """At most ``CHECKED`` samples, spread evenly."""
    if not samples:
        raise PoolError(
            "the pool has no rehearsal sample, but the method rehearses: run `dph presample` on "
            "the finished pool to see why, or use a method without rehearsal"
        )
    return [samples[i] for i in range(0, len(samples), -(-len(samples) // CHECKED))]


def require_reference(samples: Sequence[RehearsalSample], forward: TrainingForward) -> None:
    """Refuse to rehearse log-probs that the untrained policy does not reproduce."""
    some = checked(samples)
    require_stored(some, scored(forward.model, some, forward), dtype=forward.dtype)


def require_stored(
    samples: Sequence[RehearsalSample], logprobs: Sequence[Sequence[float]], *, dtype: str
) -> None:
    """Refuse stored log-probs that are further from ``logprobs`` than rounding, by the mean."""
    gap = logprob_gap(logprobs, [sample.ref_logprobs for sample in samples])
    if gap is not None and not gap.mean <= TOLERANCE[dtype]:
        raise PoolError(
            f"the stored log-probs are not this policy's: mean |log pi - log pi_ref| at step 0 is "
            f"{gap.mean:.2g} nats a token, at most {TOLERANCE[dtype]:g} is rounding; pre-sample "
            "again with this model, temperature and dtype"
        )


def scored(
    model: PreTrainedModel, rows: Sequence[PolicyRow | RehearsalSample], forward: TrainingForward
) -> list[tuple[float, ...]]:
    """Log-probs of the rows' answers under ``model``."""
    return forward.logprobs(
        model,
        [row.prompt_ids for row in rows],
        [row.completion_ids for row in rows],
        written=[row.written for row in rows],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorers:
    """Sources of log-probs other than the policy's own gradient pass.

    ``old`` is None if the sampler's log-probs are the old ones (same weights, same precision),
    ``reference`` if the objective needs no initial policy. The first of ``first_of`` mini-batches
    takes the old log-probs of its own gradient pass (`update`), so that ``old`` scores only the
    rows of the others; with 0 it scores all.
    """

    old: PreTrainedModel | None
    reference: PreTrainedModel | None
    first_of: int = 0


def scorers_of(
    train: TrainingSettings,
    objective: Objective,
    *,
    policy: PreTrainedModel,
    reference: PreTrainedModel | None,
    dtype: str,
) -> Scorers:
    """The scorers that ``train.old_logprobs`` and the terms of the objective ask for.

    With "auto" in 16 bits, rows of the first optimizer step take the old log-probs of its gradient
    pass, unless they are read before it, or again after it (another epoch).
    """
    auto = train.old_logprobs == "auto" and dtype != "float32"
    read_once = train.epochs == 1 and REF_LOGPROBS not in reads_of(objective.advantage)
    return Scorers(
        old=policy if auto or train.old_logprobs == "recompute" else None,
        reference=reference if objective.reads_reference_logprobs else None,
        first_of=train.minibatches if auto and read_once else 0,
    )


def shaped_rewards(
    groups: Sequence[Group], *, objective: ObjectiveSettings, max_tokens: int
) -> Float[Tensor, "groups samples"]:
    """Rewards plus the soft overlong penalty (DAPO, arXiv:2503.14476, eq. 13)."""
    rewards = torch.tensor(
        [[float(g.verdict.reward) for g in group.completions] for group in groups]
    )
    buffer = round(objective.overlong_buffer * max_tokens)
    if not buffer:
        return rewards
    lengths = torch.tensor([[g.completion.length for g in group.completions] for group in groups])
    penalties = overlong_penalty(
        lengths.flatten(), max_tokens=max_tokens, buffer=buffer, penalty=objective.overlong_penalty
    )
    return rewards + penalties.view_as(rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRows:
    """The rows of every group, and the gap of sampler and trainer in those scored again."""

    groups: tuple[tuple[PolicyRow, ...], ...]
    gap: LogprobGap | None


def policy_rows(
    groups: Sequence[Group],
    forward: TrainingForward,
    scorers: Scorers,
    *,
    objective: Objective,
    settings: ObjectiveSettings,
) -> PolicyRows:
    """The rows of every group, in order.

    A completion that could not be graded is not part of its group or of the loss. Log-probs are
    computed only for rows that can move the loss; the others keep the sampler's and have no
    reference. If the advantage itself compares with the initial policy, all rows are scored before
    it, so that both log-probs come from one forward if any are computed again.
    """
    if not groups:  # a step that only rehearses
        return PolicyRows(groups=(), gap=None)
    rewards = shaped_rewards(groups, objective=settings, max_tokens=forward.max_tokens)
    graded = torch.tensor([group.graded for group in groups])
    drawn = [(group.prompt_ids, g.completion) for group in groups for g in group.completions]
    rows = [
        PolicyRow(
            prompt_ids=prompt,
            completion_ids=completion.token_ids,
            advantage=0.0,
            old_logprobs=completion.logprobs,
            masked=not counts or (settings.overlong_filter and not completion.finished),
            written=completion.written,
        )
        for (prompt, completion), counts in zip(drawn, graded.flatten().tolist(), strict=True)
    ]
    gap = None
    if before := REF_LOGPROBS in reads_of(objective.advantage):
        gap = _score(rows, range(len(rows)), range(len(rows)), scorers, forward)
    samples = group_samples(groups, rows, objective.advantage)
    found = graded_advantages(objective.advantage, rewards, graded, samples)
    for index, advantage in enumerate(found.flatten().tolist()):
        rows[index] = replace(rows[index], advantage=advantage)
    if not before:
        used = [index for index, row in enumerate(rows) if moves_the_loss(row, objective)]
        parts, size = min(scorers.first_of, len(groups)), len(rows) // len(groups)
        # Groups are dealt out in turn.
        again = [index for index in used if not parts or index // size % parts]
        gap = _score(rows, used, again, scorers, forward)
    ordered = iter(rows)
    return PolicyRows(
        groups=tuple(tuple(islice(ordered, len(group.completions))) for group in groups), gap=gap
    )


def _score(
    rows: list[PolicyRow],
    indices: Sequence[int],
    again: Sequence[int],
    scorers: Scorers,
    forward: TrainingForward,
) -> LogprobGap | None:
    """Write reference log-probs into some rows, and old ones into those to score ``again``.

    Returns the gap of the old ones to the sampler's; None if these stay.
    """
    if scorers.reference is not None:
        found = scored(scorers.reference, [rows[index] for index in indices], forward)
        for index, scores in zip(indices, found, strict=True):
            rows[index] = replace(rows[index], ref_logprobs=scores)
    if scorers.old is None or not again:
        return None
    found = scored(scorers.old, [rows[index] for index in again], forward)
    gap = logprob_gap([rows[index].old_logprobs for index in again], found)
    for index, scores in zip(again, found, strict=True):
        rows[index] = replace(rows[index], old_logprobs=scores)
    return gap
