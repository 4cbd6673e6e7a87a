"""From graded groups to the rows of a step: rewards, advantages, old and reference log-probs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from dph.objectives import group_advantages, overlong_penalty
from dph.rollout.scoring import score_completions
from dph.settings import ObjectiveSettings
from dph.training.collect import Group
from dph.training.rows import PolicyRow
from dph.training.update import Forward


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


def policy_rows(
    groups: Sequence[Group], forward: Forward, scorers: Scorers, *, objective: ObjectiveSettings
) -> list[tuple[PolicyRow, ...]]:
    """The rows of every group, in order."""
    rewards = shaped_rewards(groups, objective=objective, max_tokens=forward.max_tokens)
    advantages = group_advantages(rewards, scale=objective.advantage_scale).tolist()
    flat = [(group, graded.completion) for group in groups for graded in group.completions]
    prompts = [group.prompt_ids for group, _ in flat]
    completions = [completion.token_ids for _, completion in flat]
    old = [completion.logprobs for _, completion in flat]
    if scorers.old is not None:
        old = _scored(scorers.old, prompts, completions, forward)
    reference: Sequence[tuple[float, ...] | None] = [None] * len(flat)
    if scorers.reference is not None:
        reference = _scored(scorers.reference, prompts, completions, forward)
    rows = iter(zip(prompts, completions, old, reference, strict=True))
    return [
        tuple(_row(advantage, *next(rows)) for advantage in group_advantage)
        for group_advantage in advantages
    ]


def _row(
    advantage: float,
    prompt: tuple[int, ...],
    completion: tuple[int, ...],
    old: tuple[float, ...],
    reference: tuple[float, ...] | None,
) -> PolicyRow:
    return PolicyRow(
        prompt_ids=prompt,
        completion_ids=completion,
        advantage=advantage,
        old_logprobs=old,
        ref_logprobs=reference,
    )


def _scored(
    model: PreTrainedModel,
    prompts: Sequence[tuple[int, ...]],
    completions: Sequence[tuple[int, ...]],
    forward: Forward,
) -> list[tuple[float, ...]]:
    return score_completions(
        model,
        prompts,
        completions,
        temperature=forward.temperature,
        pad_id=forward.pad_id,
        token_budget=forward.token_budget,
        dtype=forward.dtype,
        sharing=forward.sharing,
    )
