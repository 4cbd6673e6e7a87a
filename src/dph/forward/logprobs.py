"""The training forward: log-probs of completions under a model, differentiable."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from dph.attention.context import attending
from dph.errors import ModelError
from dph.forward.packed_attention import PackedAttention
from dph.forward.packing import check_rows, pack
from dph.forward.plain_head import plain_head
from dph.forward.prefix_tree import Node
from dph.forward.selected_logprobs import selected_logprobs_and_entropy
from dph.forward.sharing import Sharing, forest_to_pack

_LOGITS_AT_ONCE = 2**24
"""Logits above which they are computed in blocks: 64 MiB, of which the plain form holds three."""


@dataclass(frozen=True, slots=True)
class CompletionScores:
    """Per completion token: log-prob and, on request, entropy (nats); 0 where ``mask`` is false.

    The entropy is that of the whole next-token distribution; it carries no gradient.
    ``computed`` tokens went through the model, padding among them.
    """

    logprobs: Float[Tensor, "rows tokens"]
    entropy: Float[Tensor, "rows tokens"] | None
    mask: Bool[Tensor, "rows tokens"]
    computed: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the model is given, and where the scores come from."""

    ids: Int[Tensor, "rows length"]
    options: dict[str, Tensor]
    attention: AbstractContextManager[None]
    mask: Bool[Tensor, "rows tokens"]
    sources: Int[Tensor, "scored"]
    """Flat positions in ``ids`` whose hidden states predict the completion tokens."""
    targets: Int[Tensor, "scored"]


def completion_scores(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    with_entropy: bool = False,
    sharing: Sharing = "auto",
    forest: Sequence[Node] | None = None,
) -> CompletionScores:
    """Log-probs at ``temperature`` of every completion token, in one forward.

    Equation: logprobs[r, t] = log softmax(logits[r, t] / temperature)[completions[r][t]]
    Computed as: one causal forward, of packed rows that share their common beginnings, or of
    rows padded on the right, where no real token can see the padding, so that attention needs no
    mask; the LM head on completion positions only, in blocks where the logits would be large; the
    softmax in float32. ``sharing`` decides between the two, "auto" by their modelled time.
    ``forest`` are the trees of these rows where a plan has built them already (`Microbatch`).

    Raises:
        DataError: a prompt is empty, or there are not as many prompts as completions.
        ModelError: the model returns logits of an unexpected shape, or cannot run packed rows
            although ``sharing`` is "always".
    """
    check_rows(prompts, completions)
    forest = forest_to_pack(model, prompts, completions, sharing, known=forest)
    if forest is None:
        layout = _padded(model, prompts, completions, pad_id=pad_id)
    else:
        layout = _packed(model, prompts, completions, forest)
    head = _head_for_blocks(model, len(layout.targets))
    if head is not None:
        hidden = _completion_hidden(model, layout)
        chosen, entropy = selected_logprobs_and_entropy(
            hidden, head, layout.targets, temperature, with_entropy=with_entropy
        )
    else:
        logits = _completion_logits(model, layout)
        if temperature != 1:  # else a copy of the largest tensor there is
            logits = logits / temperature
        table = torch.log_softmax(logits, dim=-1)
        chosen = table.gather(1, layout.targets[:, None])[:, 0]
        entropy = _entropy(table) if with_entropy else chosen
    return CompletionScores(
        logprobs=_spread(chosen, layout.mask),
        entropy=_spread(entropy, layout.mask) if with_entropy else None,
        mask=layout.mask,
        computed=layout.ids.numel(),
    )


@torch.no_grad()
def _entropy(table: Float[Tensor, "scored vocabulary"]) -> Float[Tensor, "scored"]:
    return -(table.exp() * table).sum(dim=-1)


def _head_for_blocks(model: PreTrainedModel, scored: int) -> nn.Linear | None:
    """The head, where its logits would be large and nothing is done to them afterwards."""
    if scored * model.config.get_text_config().vocab_size <= _LOGITS_AT_ONCE:
        return None
    return plain_head(model)


def _packed(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    forest: Sequence[Node],
) -> _Layout:
    rows = pack(prompts, completions, device=model.device, forest=forest)
    return _Layout(
        ids=rows.ids[None],
        options={"position_ids": rows.positions[None]},
        attention=attending(model, PackedAttention(rows)),
        mask=rows.mask,
        sources=rows.sources,
        targets=rows.targets,
    )


def _padded(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    pad_id: int,
) -> _Layout:
    rows = [[*prompt, *completion] for prompt, completion in zip(prompts, completions, strict=True)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [pad_id] * (width - len(row)) for row in rows])
    before = torch.tensor([len(prompt) for prompt in prompts])
    counts = torch.tensor([len(completion) for completion in completions])
    columns = torch.arange(int(counts.max()))
    mask = columns < counts[:, None]
    targets = (torch.arange(len(rows))[:, None] * width + before[:, None] + columns)[mask]
    return _Layout(
        ids=ids.to(model.device),
        options={},
        attention=nullcontext(),
        mask=mask.to(model.device),
        sources=(targets - 1).to(model.device),
        targets=ids.flatten()[targets].to(model.device),
    )


def _completion_hidden(model: PreTrainedModel, layout: _Layout) -> Float[Tensor, "scored size"]:
    """What the head sees of the scored positions."""
    with layout.attention:
        hidden: Tensor = model.base_model(
            input_ids=layout.ids,
            attention_mask=torch.ones_like(layout.ids),
            use_cache=False,
            **layout.options,
        ).last_hidden_state
    return hidden.flatten(0, 1).index_select(0, layout.sources)


def _completion_logits(
    model: PreTrainedModel, layout: _Layout
) -> Float[Tensor, "scored vocabulary"]:
    """float32 logits of the scored positions, through the model's own forward.

    The head sees only the selected hidden states; what the model does to its logits afterwards
    (softcapping, scaling) is done to them as well. A model that bypasses its head module
    gives full logits, from which the positions are taken.
    """
    head = model.get_output_embeddings()
    with _only_at(head, layout.sources, layout.ids.shape) as cut, layout.attention:
        logits: Tensor = model(
            input_ids=layout.ids,
            # Says that every token counts, padding too: the causal mask alone hides it.
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


def _spread(
    values: Float[Tensor, "scored"], mask: Bool[Tensor, "rows tokens"]
) -> Float[Tensor, "rows tokens"]:
    return values.new_zeros(mask.shape).masked_scatter(mask, values)
