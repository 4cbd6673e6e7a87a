"""From graded groups to the rows of a step: rewards, advantages, old and reference log-probs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from dph.loss.objectives import Objective, graded_advantages, overlong_penalty, reads_of
from dph.model.forward.scoring import score_completions
from dph.recipe import ObjectiveSettings
from dph.recipe.term import REF_LOGPROBS
from dph.runs.presample.base_counts import BaseCounts
from dph.runs.train.collect import Group
from dph.runs.train.group_samples import group_samples
from dph.runs.train.logprob_gap import LogprobGap, logprob_gap
from dph.runs.train.loss_batch import TrainingForward
from dph.runs.train.rows import PolicyRow
from dph.runs.train.updating import moves_the_loss

CHECKED = 16
"""Rows whose sampler log-probs are compared with the trainer's at the start of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorers:
    """Who gives the log-probs beside the policy's own gradient pass.

    ``old`` is None where the sampler's log-probs are the old ones (same weights, same precision);
    ``reference`` is None where the objective needs no initial policy.
    """

    old: PreTrainedModel | None
    reference: PreTrainedModel | None


def shaped_rewards(
    groups: Sequence[Group], *, objective: ObjectiveSettings, max_tokens: int
) -> Float[Tensor, "groups samples"]:
    """Rewards plus the soft overlong penalty (DAPO, arXiv:2503.14476, eq. 13)."""
    rewards = torch.tensor([[g.verdict.reward for g in group.completions] for group in groups])
    buffer = round(objective.overlong_buffer * max_tokens)
    if not buffer:
        return rewards
    lengths = torch.tensor(
        [[len(g.completion.token_ids) for g in group.completions] for group in groups]
    )
    penalties = overlong_penalty(
        lengths.flatten(),
        max_tokens=max_tokens,
        buffer=buffer,
        penalty=objective.overlong_penalty,
    )
    return rewards + penalties.view_as(rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRows:
    """The rows of every group; ``gap`` is sampler against trainer, where it was measured."""

    groups: tuple[tuple[PolicyRow, ...], ...]
    gap: LogprobGap | None


def policy_rows(
    groups: Sequence[Group],
    forward: TrainingForward,
    scorers: Scorers,
    *,
    objective: Objective,
    settings: ObjectiveSettings,
    base: BaseCounts | None = None,
    check_sampler: bool = False,
) -> PolicyRows:
    """The rows of every group, in order.

    A completion that could not be graded is no part of its group and no part of the loss.
    Log-probs are computed only for rows that can move the loss; the others keep the sampler's
    and have no reference. Where the advantage itself compares with the initial policy, all rows are
    scored before it, so that both log-probs come from one forward if any are computed again.
    ``base`` is what an advantage may read of the initial policy. ``check_sampler`` compares some of
    the sampler's log-probs with the trainer's.
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
        )
        for (prompt, completion), counts in zip(drawn, graded.flatten().tolist(), strict=True)
    ]
    gap = None
    if before := REF_LOGPROBS in reads_of(objective.advantage):
        gap = _score(rows, range(len(rows)), scorers, forward)
    samples = group_samples(groups, rows, objective.advantage, base)
    found = graded_advantages(objective.advantage, rewards, graded, samples)
    for index, advantage in enumerate(found.flatten().tolist()):
        rows[index] = replace(rows[index], advantage=advantage)
    if not before:
        used = [index for index, row in enumerate(rows) if moves_the_loss(row, objective)]
        gap = _score(rows, used, scorers, forward)
    if check_sampler and scorers.old is None:
        some = range(0, len(rows), -(-len(rows) // CHECKED))
        gap = _gap(rows, some, _scored(forward.model, rows, some, forward), forward)
    ordered = iter(rows)
    return PolicyRows(
        groups=tuple(tuple(islice(ordered, len(group.completions))) for group in groups), gap=gap
    )


def _score(
    rows: list[PolicyRow], indices: Sequence[int], scorers: Scorers, forward: TrainingForward
) -> LogprobGap | None:
    """Write reference and old log-probs into some rows, where somebody computes them.

    Returns the gap of the old ones to the sampler's, None where these stay.
    """
    if scorers.reference is not None:
        scored = _scored(scorers.reference, rows, indices, forward)
        for index, scores in zip(indices, scored, strict=True):
            rows[index] = replace(rows[index], ref_logprobs=scores)
    if scorers.old is None:
        return None
    again = _scored(scorers.old, rows, indices, forward)
    gap = _gap(rows, indices, again, forward)
    for index, scores in zip(indices, again, strict=True):
        rows[index] = replace(rows[index], old_logprobs=scores)
    return gap


def _gap(
    rows: Sequence[PolicyRow],
    indices: Sequence[int],
    scores: Sequence[Sequence[float]],
    forward: TrainingForward,
) -> LogprobGap | None:
    sampler = [rows[index].old_logprobs for index in indices]
    return logprob_gap(sampler, scores, dtype=forward.dtype)


def _scored(
    model: PreTrainedModel,
    rows: Sequence[PolicyRow],
    indices: Sequence[int],
    forward: TrainingForward,
) -> list[tuple[float, ...]]:
    return score_completions(
        model,
        [rows[index].prompt_ids for index in indices],
        [rows[index].completion_ids for index in indices],
        temperature=forward.temperature,
        pad_id=forward.pad_id,
        token_budget=forward.token_budget,
        dtype=forward.dtype,
        sharing=forward.sharing,
    )
