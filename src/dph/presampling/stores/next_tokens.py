"""Next-token distributions of the initial policy at given tokens: chosen ones, and the rest."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from dph.forward.buckets import bucket_logprobs
from dph.forward.microbatches import microbatches
from dph.forward.plain_head import plain_head
from dph.models.modes import autocast, evaluating

_LOGITS_AT_ONCE = 2**24


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
) -> list[Kept]:
    """One distribution for each element of ``wanted``, in order.

    ``top`` are the likeliest tokens kept beside those that are wanted; None keeps all.
    Computed as: rows padded on the right, the head on the wanted places alone, a block of them at
    a time; the softmax in float32.
    """
    kept: list[Kept | None] = [None] * len(wanted)
    places: dict[int, list[int]] = {}
    for index, place in enumerate(wanted):
        places.setdefault(place.row, []).append(index)
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    with evaluating(model), torch.no_grad(), autocast(model, dtype):
        for batch in microbatches(lengths, token_budget=token_budget):
            chosen = [(at, index) for at, row in enumerate(batch) for index in places.get(row, ())]
            if not chosen:
                continue
            states = _States(model, [[*prompts[row], *completions[row]] for row in batch], pad_id)
            for start in range(0, len(chosen), states.block):
                block = chosen[start : start + states.block]
                rows = [at for at, _ in block]
                columns = [
                    len(prompts[batch[at]]) + wanted[index].position - 1 for at, index in block
                ]
                table = torch.log_softmax(states.logits(rows, columns) / temperature, dim=-1)
                found = _kept(table, [wanted[index].token_ids for _, index in block], top)
                for (_, index), one in zip(block, found, strict=True):
                    kept[index] = one
    return [one for one in kept if one is not None]


class _States:
    """The last hidden states of some rows, and the logits at their places in float32."""

    def __init__(self, model: PreTrainedModel, rows: Sequence[Sequence[int]], pad_id: int) -> None:
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows])
        options = {
            "input_ids": ids.to(model.device),
            # Padding counts, too: no real token can see it behind itself.
            "attention_mask": torch.ones_like(ids).to(model.device),
            "use_cache": False,
        }
        self._head = plain_head(model)
        if self._head is not None:
            self._states: Tensor = model.base_model(**options).last_hidden_state
        else:
            self._states = model(**options).logits
        vocabulary = model.config.get_text_config().vocab_size
        self.block = max(1, _LOGITS_AT_ONCE // vocabulary)

    def logits(
        self, rows: Sequence[int], columns: Sequence[int]
    ) -> Float[Tensor, "places vocabulary"]:
        states = self._states[torch.tensor(rows), torch.tensor(columns)]
        return (states if self._head is None else self._head(states)).float()


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
    values = bucket_logprobs(table.double(), padded).tolist()
    return [
        Kept(tuple(row), tuple(numbers[: len(row)]), numbers[-1])
        for row, numbers in zip(ids, values, strict=True)
    ]
