"""Values of whole next-token distributions, without ever holding positions x vocabulary numbers.

A statistic is a function of the log-probs of a block of positions. It is evaluated block by block
and, in the backward pass, once more with the gradient that arrives: a few tables of ``BLOCK``
numbers live at a time, whatever the number of positions and the size of the vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from dph.model.forward.layout import Written, completion_hidden, completion_logits, layout_of
from dph.model.forward.prefix_tree import Node
from dph.model.forward.selected_logprobs import (
    add_product,
    plain_head,
    product,
    product_dtype,
)
from dph.model.forward.sharing import Sharing
from dph.model.loading import evaluating

BLOCK, CUDA_BLOCK = 2**24, 2**26
"""Numbers in one table on a CPU, and on a GPU, whose kernels take longer for 256 MiB than it takes
to launch them. A pass over the vocabulary holds at most ``TABLES`` of them, in addition to the
statistic's own."""
TABLES = 5
"""Products, log-probs, their gradient, that of the products, and one in the products' precision."""

Statistic = Callable[[Float[Tensor, "positions vocabulary"], slice], Tensor]
"""Called with the log-probs (nats) of a block and with its place among all positions; returns
``[positions, values]`` of the block. It may be called twice and must say the same both times."""


class HeadWeights(NamedTuple):
    """A linear output layer and how its products become log-probs."""

    weight: Float[Tensor, "vocabulary size"]
    bias: Float[Tensor, "vocabulary"] | None
    temperature: float
    dtype: torch.dtype
    """Of the products; everything else is float32, or float64 where the products are."""


def log_table(
    hidden: Float[Tensor, "positions size"], head: HeadWeights
) -> Float[Tensor, "positions vocabulary"]:
    """Log softmax(head(hidden) / temperature) of a few positions."""
    return torch.log_softmax(_logits(hidden, head), dim=-1)


def over_vocabulary(
    statistic: Statistic,
    hidden: Float[Tensor, "positions size"],
    head: nn.Linear,
    temperature: float,
) -> Float[Tensor, "positions values"]:
    """``statistic`` of log softmax(head(hidden) / temperature), block by block.

    Differentiable in ``hidden`` and in the weight and the bias of ``head``, not in what the
    statistic itself brings along.

    Computed as: every block once in the forward pass, without a graph, and once more in the
    backward pass, with the graph of only that block; 4/3 of the matrix products of the plain
    form. Peak memory without ``hidden``, its gradient and that of the weight: ``TABLES`` tables of
    ``BLOCK`` numbers and what the statistic makes of one.
    """
    found: Tensor = _OverVocabulary.apply(  # type: ignore[no-untyped-call]
        hidden, head.weight, head.bias, statistic, temperature, product_dtype(hidden)
    )
    return found


def blocks(positions: int, vocabulary: int, *, cuda: bool = False) -> Iterator[slice]:
    """Positions whose tables hold at most ``BLOCK`` numbers, or one position."""
    size = max(1, (CUDA_BLOCK if cuda else BLOCK) // vocabulary)
    for start in range(0, positions, size):
        yield slice(start, min(start + size, positions))


def _logits(hidden: Tensor, head: HeadWeights) -> Tensor:
    products = product(hidden.to(head.dtype), head.weight.to(head.dtype).T)
    products = products.to(torch.promote_types(head.dtype, torch.float32))
    if head.bias is not None:
        products = products + head.bias
    return products if head.temperature == 1 else products / head.temperature


class _OverVocabulary(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "positions size"],
        weight: Float[Tensor, "vocabulary size"],
        bias: Float[Tensor, "vocabulary"] | None,
        statistic: Statistic,
        temperature: float,
        dtype: torch.dtype,
    ) -> Float[Tensor, "positions values"]:
        head = HeadWeights(weight.to(dtype), bias, temperature, dtype)
        ctx.save_for_backward(hidden, weight, bias)
        ctx.statistic, ctx.temperature, ctx.dtype = statistic, temperature, dtype
        with torch.autocast(hidden.device.type, enabled=False):
            values = [
                statistic(log_table(hidden[rows], head), rows)
                for rows in blocks(len(hidden), len(weight), cuda=hidden.is_cuda)
            ]
            return torch.cat(values) if values else statistic(log_table(hidden, head), slice(0, 0))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "positions values"]) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = ctx.saved_tensors
        head = HeadWeights(weight.to(ctx.dtype), bias, ctx.temperature, ctx.dtype)
        numbers = torch.promote_types(ctx.dtype, torch.float32)
        of_hidden = torch.empty_like(hidden, dtype=numbers)
        of_weight = None  # nothing asks for that of a frozen head
        if ctx.needs_input_grad[1]:
            of_weight = torch.zeros_like(weight, dtype=numbers)
        of_bias = None if bias is None else torch.zeros_like(bias, dtype=numbers)
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in blocks(len(hidden), len(weight), cuda=hidden.is_cuda):
                table = _gradient(ctx.statistic, hidden[rows], head, rows, grad[rows])
                if of_bias is not None:
                    of_bias += table.sum(dim=0)
                table = table.to(ctx.dtype)
                product(table, head.weight, out=of_hidden[rows])
                if of_weight is not None:
                    add_product(of_weight, table.T, hidden[rows].to(ctx.dtype))
        of_weight = None if of_weight is None else of_weight.to(weight.dtype)
        of_bias = None if of_bias is None else of_bias.to(bias.dtype)
        return of_hidden.to(hidden.dtype), of_weight, of_bias, None, None, None


def _gradient(
    statistic: Statistic, hidden: Tensor, head: HeadWeights, rows: slice, grad: Tensor
) -> Tensor:
    """Gradient at the head's products, from that at the statistic."""
    with torch.no_grad():
        logits = _logits(hidden, head)
    with torch.enable_grad():
        values = statistic(torch.log_softmax(logits.requires_grad_(), dim=-1), rows)
    (table,) = torch.autograd.grad(values, logits, grad.to(values.dtype))
    return table if head.temperature == 1 else table.div_(head.temperature)


@dataclass(frozen=True, slots=True)
class NextTokens:
    """Statistics of a model at each completion token, row after row, without gradient.

    With a head ``states`` are hidden states and blocks are computed when they are asked for;
    without one they are the log-probs themselves.
    """

    states: Float[Tensor, "positions size"]
    head: HeadWeights | None

    @torch.no_grad()
    def logprobs(
        self, positions: slice | Int[Tensor, "positions"]
    ) -> Float[Tensor, "positions vocabulary"]:
        """Log-probs (nats) of the whole vocabulary at some positions."""
        states = self.states[positions]
        return states if self.head is None else log_table(states, self.head)


@torch.no_grad()
def next_tokens(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    temperature: float,
    pad_id: int,
    sharing: Sharing = "auto",
    forest: Sequence[Node] | None = None,
    written: Written = None,
) -> NextTokens:
    """The distributions that ``model`` has at ``temperature`` at every completion token.

    Computed as: hidden states are kept, not tables, where the logits are the head's products and
    nothing more. Models that do something to their logits afterwards give whole tables. ``forest``
    are the trees of these rows, where a plan has built them already. Of rows that ``written``
    describes, only the tokens that the model wrote.
    """
    with evaluating(model):
        layout = layout_of(
            model,
            prompts,
            completions,
            pad_id=pad_id,
            sharing=sharing,
            forest=forest,
            written=written,
        )
        head = plain_head(model)
        if head is None:
            logits = completion_logits(model, layout)
            return NextTokens(torch.log_softmax(logits / temperature, dim=-1), None)
        hidden = completion_hidden(model, layout)
        weights = HeadWeights(head.weight, head.bias, temperature, product_dtype(hidden))
        return NextTokens(hidden, weights)
