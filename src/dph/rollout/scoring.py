"""Log-probs of given completions under a model: the training forward, without gradients."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from dph.models.autocast import autocast
from dph.models.logprobs import completion_scores
from dph.models.microbatches import microbatches


def score_completions(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    token_budget: int,
    dtype: str,
) -> list[tuple[float, ...]]:
    """Log-probs (nats) of every completion token, row by row, in the order given.

    The forward is that of training, so that a policy with the same weights scores a ratio of 1
    up to rounding. ``token_budget`` bounds the padded tokens of one forward pass.
    """
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    scores: list[tuple[float, ...]] = [()] * len(lengths)
    was_training = model.training
    model.eval()
    for rows in microbatches(lengths, token_budget=token_budget):
        with torch.no_grad(), autocast(model, dtype):
            batch = completion_scores(
                model,
                [prompts[row] for row in rows],
                [completions[row] for row in rows],
                temperature=temperature,
                pad_id=pad_id,
            )
        for row, values in zip(rows, batch.logprobs.cpu().tolist(), strict=True):
            scores[row] = tuple(values[: len(completions[row])])
    model.train(was_training)
    return scores
