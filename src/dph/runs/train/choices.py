"""Tokens that terms choose among all of a mini-batch, before it is cut into micro-batches."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from dph._base.randomness import derived_seed
from dph.loss.objectives import POLICY, LossBatch, Objective, policy_tokens
from dph.model.forward.scoring import score_completions
from dph.runs.train.loss_batch import TrainingForward, padded
from dph.runs.train.rows import PolicyRow, WeightedRow


def chosen_tokens(
    weighted: Sequence[WeightedRow], forward: TrainingForward, objective: Objective, *, seed: int
) -> Mapping[str, Bool[Tensor, "rows tokens"]]:
    """For each term that chooses, which tokens of which rows of the mini-batch.

    Computed as: one forward over the new samples without gradient, where a term chooses at all.
    """
    rows = [w.row for w in weighted if isinstance(w.row, PolicyRow)]
    if not objective.choosing or not rows:
        return {}
    logprobs = score_completions(
        forward.model,
        [row.prompt_ids for row in rows],
        [row.completion_ids for row in rows],
        temperature=forward.temperature,
        pad_id=forward.pad_id,
        token_budget=forward.token_budget,
        dtype=forward.dtype,
        sharing=forward.sharing,
    )
    batch = _whole(rows, logprobs)
    width = max(len(w.row.completion_ids) for w in weighted)
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
    lengths = torch.tensor([len(row.completion_ids) for row in rows])
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
