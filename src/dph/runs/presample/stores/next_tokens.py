"""Next-token distributions of the initial policy at given tokens: chosen ones, and the rest."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from dph.model.forward.buckets import bucket_logprobs
from dph.model.forward.next_tokens import next_tokens
from dph.model.forward.over_vocabulary import blocks
from dph.model.forward.sharing import Sharing, plan_microbatches
from dph.model.modes import autocast


class Kept(NamedTuple):
    """What is kept of one distribution: log-probs of some tokens, and of all others together."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    log_tail: float


class Wanted(NamedTuple):
    """A place of a row, and the tokens that are kept there whatever their probability."""

    row: int
    position: int
    token_ids: tuple[int, ...]


def kept_distributions(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    wanted: Sequence[Wanted],
    *,
    top: int | None,
    temperature: float,
    pad_id: int,
    token_budget: int,
    dtype: str,
    sharing: Sharing = "auto",
) -> list[Kept]:
    """One distribution for each element of ``wanted``, in order.

    ``top`` are the likeliest tokens kept beside those that are wanted; None keeps all.
    Computed as: the training forward, which runs what rows begin with alike once (examples before a
    question, the prompt of all its answers); the head on the wanted places alone, a block of them
    at a time; the softmax in float32. ``token_budget`` bounds the tokens of one forward.
    """
    kept: list[Kept | None] = [None] * len(wanted)
    places: dict[int, list[int]] = {}
    for index, place in enumerate(wanted):
        places.setdefault(place.row, []).append(index)
    rows = sorted(places)
    asked = [prompts[row] for row in rows], [completions[row] for row in rows]
    vocabulary = model.config.get_text_config().vocab_size
    for batch in plan_microbatches(model, *asked, token_budget=token_budget, sharing=sharing):
        with autocast(model, dtype):
            found = next_tokens(
                model,
                [asked[0][at] for at in batch.rows],
                [asked[1][at] for at in batch.rows],
                temperature=temperature,
                pad_id=pad_id,
                sharing=batch.sharing,
                forest=batch.forest,
            )
        chosen, first = [], 0
        for at in batch.rows:
            chosen += [(first + wanted[index].position, index) for index in places[rows[at]]]
            first += len(asked[1][at])
        for block in blocks(len(chosen), vocabulary):
            table = found.logprobs(torch.tensor([position for position, _ in chosen[block]]))
            also = [wanted[index].token_ids for _, index in chosen[block]]
            for (_, index), one in zip(chosen[block], _kept(table, also, top), strict=True):
                kept[index] = one
    return [one for one in kept if one is not None]


def _kept(
    table: Float[Tensor, "places vocabulary"], also: Sequence[Sequence[int]], top: int | None
) -> list[Kept]:
    """The likeliest tokens of every row of ``table`` and ``also``, and the log of the rest."""
    vocabulary = table.shape[-1]
    count = vocabulary if top is None else min(top, vocabulary)
    likeliest: list[list[int]] = table.topk(count, dim=-1).indices.tolist()
    ids = [list(dict.fromkeys([*best, *more])) for best, more in zip(likeliest, also, strict=True)]
    width = max(map(len, ids))
    padded: Int[Tensor, "places width"] = torch.tensor(
        [[*row, *[row[0]] * (width - len(row))] for row in ids], device=table.device
    )
    values = bucket_logprobs(table, padded).tolist()
    return [
        Kept(tuple(row), tuple(numbers[: len(row)]), numbers[-1])
        for row, numbers in zip(ids, values, strict=True)
    ]
