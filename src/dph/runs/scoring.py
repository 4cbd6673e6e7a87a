"""The scorer of a recipe."""

from transformers import PreTrainedTokenizerBase

from dph.model.forward.scorer import AnswerScorer
from dph.recipe import Recipe


def scorer_of(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, *, temperature: float | None = None
) -> AnswerScorer:
    """Scorer of a run, at the temperature of training unless another is named."""
    return AnswerScorer(
        pad_id=int(tokenizer.pad_token_id),
        temperature=recipe.sampling.temperature if temperature is None else temperature,
        dtype=recipe.model.dtype,
        token_budget=recipe.train.microbatch_tokens,
        sharing=recipe.train.shared_prompts,
    )
