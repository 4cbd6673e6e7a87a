"""How many tokens a recipe has in memory at a time, where every answer is as long as it may be."""

from dataclasses import dataclass

from dph.recipe import Recipe

_PREFILL, _PREFILL_ON_CPU = 8192, 2048
"""Prompt tokens that the sampler runs at once (`dph.model.sampler.torch.shared_forward`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Tokens of the largest micro-batch and of the sampler.

    ``computed`` go through the model in one forward pass where common prompts are shared, ``apart``
    where they are not; ``scored`` of them predict a token of an answer. ``several`` says whether
    an update has more than one such pass. ``cached`` is what the sampler's cache holds for
    ``rows`` answers, ``prefilled`` what it runs at once.
    """

    computed: int
    apart: int
    scored: int
    scored_apart: int
    several: bool
    cached: int
    rows: int
    prefilled: int


def load_of(recipe: Recipe, *, prompt: int, common: int = 0, cuda: bool = False) -> Load:
    """The load of a recipe whose longest prompt has ``prompt`` tokens, on a GPU or a CPU.

    All prompts begin with the same ``common`` tokens (examples, a template), which are run once.
    """
    train, answer = recipe.train, recipe.sampling.max_tokens
    groups = -(-train.problems_per_step // train.minibatches)
    rows = groups * train.samples_per_problem
    stored = -(-_stored(recipe) // train.minibatches)
    row, budget, own = prompt + answer, train.microbatch_tokens, prompt - common
    shared = common + groups * own + rows * answer + stored * (own + answer)
    apart = (rows + stored) * row
    computed, unshared = (max(row, min(tokens, budget)) for tokens in (shared, apart))
    drawn = train.problems_per_step * train.samples_per_problem
    side_by_side = min(drawn, recipe.sampling.max_rows)
    prompts = -(-side_by_side // train.samples_per_problem)
    cached = prompts * prompt + side_by_side * max(answer - 1, 1)
    at_once = _PREFILL if cuda else _PREFILL_ON_CPU
    return Load(
        computed=computed,
        apart=unshared,
        scored=(rows + stored) * answer * computed // max(shared, 1),
        scored_apart=unshared * answer // row,
        several=shared > budget,
        cached=min(cached, max(recipe.sampling.cache_tokens, row)),
        rows=side_by_side,
        prefilled=max(prompt, min(common + prompts * own, at_once)) if drawn else 0,
    )


def _stored(recipe: Recipe) -> int:
    """Stored answers of a step."""
    anchors = recipe.objective.active_anchors.values()
    return sum(anchor.per_step or recipe.train.rehearsal_per_step for anchor in anchors)
