"""The training forward: log-probs of completions under a model, differentiable."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.forward.over_vocabulary import (
    Statistic,
    over_vocabulary,
    plain_head,
    selected_logprobs,
)
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import Node, Scored, Span, check_rows, pack, scored_tables, to_device
from dph.model.forward.sharing import Sharing, forest_to_pack
from dph.model.releases import attending

_LOGITS_AT_ONCE = 2**24
"""Logits above which they are computed in blocks: 64 MiB, of which the plain form holds three."""

Written = Sequence[Sequence[bool] | None] | None
"""For each row which tokens of its completion the model wrote; None stands for all of them.

Other tokens (results of tools) are read by the model and not scored: results for a completion then
have one column for each token that the model wrote, in their order, and none for the others, so
that no loss, mean, length, divergence or entropy can see them.
"""


@dataclass(frozen=True, slots=True)
class Layout(Scored):
    """Inputs of the model, and the positions of the scores; sources are flat ones in ``ids``."""

    ids: Int[Tensor, "rows length"]
    options: dict[str, Tensor]
    attention: AbstractContextManager[None]

    def run(self, model: nn.Module) -> Any:
        """The model's output; every token counts, padding too, which the causal mask hides."""
        mask = torch.ones_like(self.ids)
        with self.attention:
            return model(input_ids=self.ids, attention_mask=mask, use_cache=False, **self.options)


def layout_of(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    pad_id: int,
    sharing: Sharing,
    forest: Sequence[Node] | None = None,
    written: Written = None,
) -> Layout:
    """Packed or padded, as ``sharing`` decides; scored tokens stand in the order of the mask."""
    check_rows(prompts, completions)
    forest = forest_to_pack(model, prompts, completions, sharing, known=forest)
    if forest is None:
        return _padded(model, prompts, completions, pad_id=pad_id, written=written)
    rows = pack(prompts, completions, device=model.device, forest=forest, written=written)
    return Layout(
        rows.sources,
        rows.targets,
        rows.mask,
        rows.lengths,
        ids=rows.ids[None],
        options={"position_ids": rows.positions[None]},
        attention=attending(model, PackedAttention(rows)),
    )


def _padded(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    pad_id: int,
    written: Written,
) -> Layout:
    lengths = [len(p) + len(c) for p, c in zip(prompts, completions, strict=True)]
    table = np.full((len(lengths), max(lengths)), pad_id)
    table[np.arange(max(lengths)) < np.array(lengths)[:, None]] = np.fromiter(
        chain.from_iterable(chain(*zip(prompts, completions, strict=True))), np.int64, sum(lengths)
    )
    predicting = [
        Span(row * max(lengths) + length - len(completion) - 1, len(completion))
        for row, (length, completion) in enumerate(zip(lengths, completions, strict=True))
    ]
    scored, kept = scored_tables(predicting, completions, written)
    sources, targets, mask, ids = to_device([*scored, table], model.device)
    return Layout(sources, targets, mask, kept, ids, options={}, attention=nullcontext())


def completion_hidden(model: PreTrainedModel, layout: Layout) -> Float[Tensor, "scored size"]:
    """Input of the head at the scored positions."""
    hidden: Tensor = layout.run(model.base_model).last_hidden_state
    return hidden.flatten(0, 1).index_select(0, layout.sources)


def completion_logits(model: PreTrainedModel, layout: Layout) -> Float[Tensor, "scored vocabulary"]:
    """float32 logits of the scored positions, through the model's own forward.

    The head sees only the selected hidden states; later changes of the logits (softcapping,
    scaling) apply to them as well. A model that bypasses its head module gives full logits, from
    which the positions are taken.
    """
    head = model.get_output_embeddings()
    with _only_at(head, layout.sources, layout.ids.shape) as cut:
        logits: Tensor = layout.run(model).logits
    if cut and logits.shape[:2] == (1, len(layout.sources)):
        selected = logits[0]
    elif logits.shape[:2] == layout.ids.shape:
        selected = logits.flatten(0, 1).index_select(0, layout.sources)
    else:
        raise ModelError(
            f"{type(model).__name__} gave logits of shape {tuple(logits.shape)} "
            f"for tokens of shape {tuple(layout.ids.shape)}"
        )
    return selected.float()


@contextmanager
def _only_at(
    head: nn.Module | None, sources: Int[Tensor, "scored"], shape: torch.Size
) -> Iterator[list[nn.Module]]:
    """Let ``head`` see the hidden states at ``sources`` only; gives a list of the heads that did.

    Shapes cannot tell: there may be as many sources as tokens.
    """
    cut: list[nn.Module] = []

    def select(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        hidden = arguments[0]
        if hidden.shape[:2] != shape:
            return None
        cut.append(module)
        return (hidden.flatten(0, 1).index_select(0, sources)[None], *arguments[1:])

    if head is None:
        yield cut
        return
    handle = head.register_forward_pre_hook(select)
    try:
        yield cut
    finally:
        handle.remove()


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

    ``statistics`` are the requested ones, with gradient, in their order. ``lengths`` are the
    numbers of tokens of the rows. ``computed`` tokens went through the model, padding included.
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
    ``forest`` are the trees of these rows if a plan has built them already (`Microbatch`).
    ``statistics`` of the whole vocabulary come from the same forward; a row may be in one.
    Of rows that ``written`` describes, only the tokens that the model wrote are scored.
    """
    layout = layout_of(
        model, prompts, completions, pad_id=pad_id, sharing=sharing, forest=forest, written=written
    )
    if statistics and int(torch.stack([s.rows for s in statistics]).sum(0).max()) > 1:
        raise ValueError("a row appears in two statistics: combine them into one")
    logits_in_all = len(layout.targets) * model.config.get_text_config().vocab_size
    head = plain_head(model) if logits_in_all > _LOGITS_AT_ONCE else None
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


def _of_table(
    table: Float[Tensor, "scored vocabulary"], layout: Layout, statistics: Sequence[RowStatistic]
) -> tuple[Float[Tensor, "scored"], tuple[Tensor, ...]]:
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
) -> tuple[Float[Tensor, "scored"], tuple[Tensor, ...]]:
    """Tokens with a statistic get their log-prob in the same pass over the vocabulary."""
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
        both = partial(_with_logprob, of=statistic.of, targets=layout.targets[at])
        values = over_vocabulary(both, hidden.index_select(0, at), head, temperature)
        selected.append(values[:, 0])
        found.append(values[:, 1:])
    return torch.cat(selected).index_select(0, in_order), tuple(found)


def _with_logprob(table: Tensor, rows: slice, of: Statistic, targets: Tensor) -> Tensor:
    return torch.cat([table.gather(1, targets[rows, None]), of(table, rows)], dim=1)


def _positions(statistic: RowStatistic, lengths: Sequence[int]) -> NDArray[np.int64]:
    """Positions of its rows among the scored tokens."""
    return np.flatnonzero(np.repeat(statistic.rows.numpy(), lengths))
