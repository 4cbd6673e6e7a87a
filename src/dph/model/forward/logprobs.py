"""The training forward: log-probs of completions under a model, differentiable."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from dph.model.forward.layout import (
    Layout,
    Written,
    completion_hidden,
    completion_logits,
    layout_of,
)
from dph.model.forward.over_vocabulary import Statistic, over_vocabulary
from dph.model.forward.prefix_tree import Node
from dph.model.forward.selected_logprobs import plain_head, selected_logprobs
from dph.model.forward.sharing import Sharing, plan_microbatches
from dph.model.forward.transfer import to_device
from dph.model.loading import autocast, evaluating

_LOGITS_AT_ONCE = 2**24
"""Logits above which they are computed in blocks: 64 MiB, of which the plain form holds three."""


@dataclass(frozen=True, slots=True)
class RowStatistic:
    """Values of whole next-token distributions, at the completion tokens of some rows.

    The positions that ``of`` is called with are those of the chosen rows, row after row.
    """

    rows: Bool[Tensor, "rows"]
    of: Statistic


@dataclass(frozen=True, slots=True)
class CompletionScores:
    """Per completion token: its log-prob (nats); 0 where ``mask`` is false.

    ``statistics`` are those that were asked for, with gradient, in their order.
    ``lengths`` are the numbers of tokens of the rows. ``computed`` tokens went through the model,
    padding among them.
    """

    logprobs: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]
    lengths: tuple[int, ...]
    computed: int
    statistics: tuple[Float[Tensor, "_ _"], ...] = ()


def completion_scores(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    sharing: Sharing = "auto",
    forest: Sequence[Node] | None = None,
    statistics: Sequence[RowStatistic] = (),
    written: Written = None,
) -> CompletionScores:
    """Log-probs at ``temperature`` of every completion token, in one forward.

    Equation: logprobs[r, t] = log softmax(logits[r, t] / temperature)[completions[r][t]]
    Computed as: one causal forward, of packed rows that share their common beginnings, or of
    rows padded on the right, where no real token can see the padding, so that attention needs no
    mask; the LM head on completion positions only, in blocks where the logits would be large; the
    softmax in float32. ``sharing`` decides between the two, "auto" by their modelled time.
    ``forest`` are the trees of these rows where a plan has built them already (`Microbatch`).
    ``statistics`` of the whole vocabulary come from the same forward; a row may be in one.
    Of rows that ``written`` describes, only the tokens that the model wrote are scored.
    """
    layout = layout_of(
        model,
        prompts,
        completions,
        pad_id=pad_id,
        sharing=sharing,
        forest=forest,
        written=written,
    )
    if statistics and int(torch.stack([s.rows for s in statistics]).sum(0).max()) > 1:
        raise ValueError("a row appears in two statistics: combine them into one")
    head = _head_for_blocks(model, len(layout.targets))
    if head is not None:
        hidden = completion_hidden(model, layout)
        chosen, found = _in_blocks(hidden, head, layout, temperature, statistics)
    else:
        logits = completion_logits(model, layout)
        if temperature != 1:  # else a copy of the largest tensor there is
            logits = logits / temperature
        chosen, found = _of_table(torch.log_softmax(logits, dim=-1), layout, statistics)
    return CompletionScores(
        logprobs=spread(chosen, layout.mask),
        mask=layout.mask,
        lengths=layout.lengths,
        computed=layout.ids.numel(),
        statistics=found,
    )


def spread(
    values: Float[Tensor, "scored"], mask: Bool[Tensor, "rows tokens"]
) -> Float[Tensor, "rows tokens"]:
    """Values of the tokens in ``mask``, row after row, in their places; 0 elsewhere.

    Computed as: their number is known, so that on CUDA the host need not wait for it.
    """
    places = mask.flatten().nonzero_static(size=len(values))[:, 0]
    return values.new_zeros(mask.numel()).index_copy(0, places, values).view(mask.shape)


_Scored = tuple[Float[Tensor, "scored"], tuple[Tensor, ...]]
"""Log-probs of the chosen tokens, and the statistics."""


def _of_table(
    table: Float[Tensor, "scored vocabulary"],
    layout: Layout,
    statistics: Sequence[RowStatistic],
) -> _Scored:
    chosen = table.gather(1, layout.targets[:, None])[:, 0]
    found = []
    places = to_device([_positions(s, layout.lengths) for s in statistics], table.device)
    for statistic, at in zip(statistics, places, strict=True):
        rows = table.index_select(0, at)
        found.append(statistic.of(rows, slice(0, len(rows))))
    return chosen, tuple(found)


def _in_blocks(
    hidden: Float[Tensor, "scored size"],
    head: nn.Linear,
    layout: Layout,
    temperature: float,
    statistics: Sequence[RowStatistic],
) -> _Scored:
    """Tokens with a statistic give their log-prob in the same pass over the vocabulary."""
    if not statistics:
        return selected_logprobs(hidden, head, layout.targets, temperature), ()
    known = [_positions(statistic, layout.lengths) for statistic in statistics]
    without = np.setdiff1d(np.arange(len(layout.targets)), np.concatenate(known))
    back = np.concatenate([without, *known]).argsort()
    left, in_order, *places = to_device([without, back, *known], hidden.device)
    plain = hidden.index_select(0, left)
    selected = [selected_logprobs(plain, head, layout.targets[left], temperature)]
    found = []
    for statistic, at in zip(statistics, places, strict=True):
        both = _with_logprob(statistic.of, layout.targets[at])
        values = over_vocabulary(both, hidden.index_select(0, at), head, temperature)
        selected.append(values[:, 0])
        found.append(values[:, 1:])
    return torch.cat(selected).index_select(0, in_order), tuple(found)


def _with_logprob(of: Statistic, targets: Int[Tensor, "positions"]) -> Statistic:
    def both(table: Tensor, rows: slice) -> Tensor:
        chosen = table.gather(1, targets[rows, None])
        return torch.cat([chosen, of(table, rows)], dim=1)

    return both


def _positions(statistic: RowStatistic, lengths: Sequence[int]) -> NDArray[np.int64]:
    """Positions of its rows among the scored tokens."""
    return np.flatnonzero(np.repeat(statistic.rows.numpy(), lengths))


def _head_for_blocks(model: PreTrainedModel, scored: int) -> nn.Linear | None:
    """The head, where its logits would be large and nothing is done to them afterwards."""
    if scored * model.config.get_text_config().vocab_size <= _LOGITS_AT_ONCE:
        return None
    return plain_head(model)


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
    written: Written = None,
) -> list[tuple[float, ...]]:
    """Log-probs (nats) of every completion token, row by row, in the order given.

    Of rows that ``written`` describes, those of the tokens that the model wrote.

    The forward is that of training, so that a policy with the same weights scores a ratio of 1
    up to rounding. ``token_budget`` bounds the tokens that one forward pass computes.
    """
    scored: list[tuple[Sequence[int], CompletionScores]] = []
    with evaluating(model):
        for batch in plan_microbatches(
            model, prompts, completions, token_budget=token_budget, sharing=sharing
        ):
            with torch.no_grad(), autocast(model, dtype):
                scores = completion_scores(
                    model,
                    [prompts[row] for row in batch.rows],
                    [completions[row] for row in batch.rows],
                    temperature=temperature,
                    pad_id=pad_id,
                    sharing=batch.sharing,
                    forest=batch.forest,
                    written=None if written is None else [written[row] for row in batch.rows],
                )
            scored.append((batch.rows, scores))
    found: list[tuple[float, ...]] = [()] * len(prompts)
    for rows, scores in scored:  # read at the end: a GPU has all of its work by then
        for row, length, values in zip(rows, scores.lengths, scores.logprobs.tolist(), strict=True):
            found[row] = tuple(values[:length])
    return found
