"""Inputs of a model for scoring completions, and the positions of the scores in its output."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.attention.releases import attending
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import Scored, Span, check_rows, pack, scored_tables
from dph.model.forward.prefix_tree import Node
from dph.model.forward.sharing import Sharing, forest_to_pack
from dph.model.forward.transfer import to_device

Written = Sequence[Sequence[bool] | None] | None
"""For each row which tokens of its completion the model wrote; None stands for all of them.

Tokens of others (results of tools) are read by the model and not scored: what is computed
from a completion then has one column for each token that the model wrote, in their order, and none
for the others, so that no loss, mean, length, divergence or entropy can see them.
"""


@dataclass(frozen=True, slots=True)
class Layout(Scored):
    """Inputs of the model, and the positions of the scores; sources are flat ones in ``ids``."""

    ids: Int[Tensor, "rows length"]
    options: dict[str, Tensor]
    attention: AbstractContextManager[None]


def layout_of(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    pad_id: int,
    sharing: Sharing,
    forest: Sequence[Node] | None,
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
    with layout.attention:
        hidden: Tensor = model.base_model(
            input_ids=layout.ids,
            attention_mask=torch.ones_like(layout.ids),
            use_cache=False,
            **layout.options,
        ).last_hidden_state
    return hidden.flatten(0, 1).index_select(0, layout.sources)


def completion_logits(model: PreTrainedModel, layout: Layout) -> Float[Tensor, "scored vocabulary"]:
    """float32 logits of the scored positions, through the model's own forward.

    The head sees only the selected hidden states; what the model does to its logits afterwards
    (softcapping, scaling) is done to them as well. A model that bypasses its head module
    gives full logits, from which the positions are taken.
    """
    head = model.get_output_embeddings()
    with _only_at(head, layout.sources, layout.ids.shape) as cut, layout.attention:
        logits: Tensor = model(
            input_ids=layout.ids,
            # Every token counts, padding too, which the causal mask already hides.
            attention_mask=torch.ones_like(layout.ids),
            use_cache=False,
            **layout.options,
        ).logits
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
