"""Log-probs of given completions under a model: the training forward, without gradients."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from dph.model.forward.logprobs import completion_scores
from dph.model.forward.sharing import Sharing, plan_microbatches
from dph.model.modes import autocast, evaluating


def score_completions(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    token_budget: int,
    dtype: str,
    sharing: Sharing = "auto",
) -> list[tuple[float, ...]]:
    """Log-probs (nats) of every completion token, row by row, in the order given.

    The forward is that of training, so that a policy with the same weights scores a ratio of 1
    up to rounding. ``token_budget`` bounds the tokens that one forward pass computes.
    """
    scores: list[tuple[float, ...]] = [()] * len(prompts)
    with evaluating(model):
        for batch in plan_microbatches(
            model, prompts, completions, token_budget=token_budget, sharing=sharing
        ):
            with torch.no_grad(), autocast(model, dtype):
                scored = completion_scores(
                    model,
                    [prompts[row] for row in batch.rows],
                    [completions[row] for row in batch.rows],
                    temperature=temperature,
                    pad_id=pad_id,
                    sharing=batch.sharing,
                    forest=batch.forest,
                )
            for row, values in zip(batch.rows, scored.logprobs.cpu().tolist(), strict=True):
                scores[row] = tuple(values[: len(completions[row])])
    return scores
