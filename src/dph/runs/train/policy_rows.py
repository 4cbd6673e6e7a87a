"""From graded groups to the rows of a step: rewards, advantages, old and reference log-probs."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from dph.loss.objectives import (
    AnyAdvantage,
    GroupSamples,
    Objective,
    graded_advantages,
    overlong_penalty,
    reads_of,
)
from dph.recipe import ObjectiveSettings
from dph.recipe.terms import LOGPROBS, REF_LOGPROBS
from dph.runs.train.collect import Group
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.rows import PolicyRow, length_of
from dph.runs.train.updating import LogprobGap, moves_the_loss


def group_samples(
    groups: Sequence[Group], rows: Sequence[PolicyRow], advantage: AnyAdvantage
) -> GroupSamples | None:
    """Inputs of ``advantage``, and None where it reads nothing.

    ``rows`` are the samples of ``groups``, all of one size, group by group. Their old log-probs are
    the sampler's, whichever the ratio of the loss starts from, unless all rows were scored before
    (``policy_rows``).
    """
    reads = reads_of(advantage)
    if not reads:
        return None
    logprobs = lengths = initial = None
    if LOGPROBS in reads:
        logprobs = torch.tensor([sum(row.old_logprobs) for row in rows]).view(len(groups), -1)
        lengths = torch.tensor([max(1, length_of(row)) for row in rows])
        lengths = lengths.view_as(logprobs)
    scored = [row.ref_logprobs for row in rows if row.ref_logprobs is not None]
    if REF_LOGPROBS in reads and len(scored) == len(rows):
        initial = torch.tensor([sum(values) for values in scored]).view(len(groups), -1)
    return GroupSamples(logprobs=logprobs, lengths=lengths, ref_logprobs=initial)


_LOG = logging.getLogger(__name__)

TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}
"""Largest mean difference, in nats a token, that is rounding, with room."""


def logprob_gap(
    sampler: Sequence[Sequence[float]], trainer: Sequence[Sequence[float]]
) -> LogprobGap | None:
    """Mean and largest |log pi_sampler - log pi_trainer|; None without any token."""
    gaps = [
        abs(a - b)
        for row, other in zip(sampler, trainer, strict=True)
        for a, b in zip(row, other, strict=True)
    ]
    return LogprobGap(mean=fmean(gaps), largest=max(gaps)) if gaps else None


def warn_of_gap(gap: LogprobGap | None, *, dtype: str) -> None:
    """Log a warning where the mean is above what rounding in ``dtype`` explains.

    The importance ratios are then wrong by as much.
    """
    if gap is not None and not gap.mean <= TOLERANCE[dtype]:
        _LOG.warning(
            "log-probs of sampler and trainer differ by %.2g nats a token (at most %g is "
            "rounding): do both have the same weights, temperature and precision?",
            gap.mean,
            TOLERANCE[dtype],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorers:
    """Sources of log-probs other than the policy's own gradient pass.

    ``old`` is None where the sampler's log-probs are the old ones (same weights, same precision);
    ``reference`` is None where the objective needs no initial policy. ``first_of`` this many
    mini-batches takes the old log-probs of its own gradient pass (`update`), so that ``old`` scores
    the rows of the others alone; with 0 it scores all.
    """

    old: PreTrainedModel | None
    reference: PreTrainedModel | None
    first_of: int = 0


def shaped_rewards(
    groups: Sequence[Group], *, objective: ObjectiveSettings, max_tokens: int
) -> Float[Tensor, "groups samples"]:
    """Rewards plus the soft overlong penalty (DAPO, arXiv:2503.14476, eq. 13)."""
    rewards = torch.tensor([[g.verdict.reward for g in group.completions] for group in groups])
    buffer = round(objective.overlong_buffer * max_tokens)
    if not buffer:
        return rewards
    lengths = torch.tensor([[g.completion.length for g in group.completions] for group in groups])
    penalties = overlong_penalty(
        lengths.flatten(),
        max_tokens=max_tokens,
        buffer=buffer,
        penalty=objective.overlong_penalty,
    )
    return rewards + penalties.view_as(rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRows:
    """The rows of every group; ``gap`` is sampler against trainer, of rows scored again."""

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

    A completion that could not be graded is no part of its group and no part of the loss.
    Log-probs are computed only for rows that can move the loss; the others keep the sampler's
    and have no reference. Where the advantage itself compares with the initial policy, all rows are
    scored before it, so that both log-probs come from one forward if any are computed again.
    """
    if not groups:  # a step that learns from stored answers alone
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

    Returns the gap of the old ones to the sampler's, None where these stay.
    """
    if scorers.reference is not None:
        scored = _scored(scorers.reference, rows, indices, forward)
        for index, scores in zip(indices, scored, strict=True):
            rows[index] = replace(rows[index], ref_logprobs=scores)
    if scorers.old is None or not again:
        return None
    found = _scored(scorers.old, rows, again, forward)
    gap = logprob_gap([rows[index].old_logprobs for index in again], found)
    for index, scores in zip(again, found, strict=True):
        rows[index] = replace(rows[index], old_logprobs=scores)
    return gap


def _scored(
    model: PreTrainedModel,
    rows: Sequence[PolicyRow],
    indices: Sequence[int],
    forward: TrainingForward,
) -> list[tuple[float, ...]]:
    return forward.logprobs(
        model,
        [rows[index].prompt_ids for index in indices],
        [rows[index].completion_ids for index in indices],
        written=[rows[index].written for index in indices],
    )
