"""Log-probs without the table of all logits: blocks of it, computed again in the backward pass.

The plain form keeps logits, their log-softmax and a gradient, each tokens x vocabulary. Here a few
blocks live at a time, whatever the number of positions and the size of the vocabulary; a forward
and backward pass take 4/3 of the matrix products. `selected_logprobs` are those of chosen tokens,
`over_vocabulary` any values of whole next-token distributions.
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from dph.model.loading import evaluating

_PACKAGE = "cut_cross_entropy"
"""Wijmans et al., arXiv:2411.09009."""


def takes_cut_cross_entropy(device: str, dtype: torch.dtype) -> bool:
    """True if cut-cross-entropy is installed and has kernels for this device and precision."""
    sixteen_bits = dtype in (torch.bfloat16, torch.float16)
    return device == "cuda" and sixteen_bits and importlib.util.find_spec(_PACKAGE) is not None


def cut_logprobs(
    hidden: Float[Tensor, "tokens size"],
    weight: Float[Tensor, "vocabulary size"],
    targets: Int[Tensor, "tokens"],
    temperature: float,
    *,
    dtype: torch.dtype,
) -> Float[Tensor, "tokens"]:
    """Give log softmax(weight hidden / temperature) at the targets, in float32.

    By default the package leaves small gradients out; here it does not.
    """
    negative: Tensor = importlib.import_module(_PACKAGE).linear_cross_entropy(
        (hidden / temperature).to(dtype),
        weight.to(dtype),
        targets,
        reduction="none",
        filter_eps=None,
    )
    return -negative.float()


_plain: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


def plain_head(model: PreTrainedModel) -> nn.Linear | None:
    """The output layer, if ``logits = head(last hidden state)`` and nothing more; else None.

    Computed as: both on a few tokens, without gradients. Softcaps, logit scales, and heads that
    are not a linear layer or have hooks, give None.
    """
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or model.base_model is model:
        return None
    if head._forward_hooks or head._forward_pre_hooks or head._backward_hooks:
        return None
    if model not in _plain:
        _plain[model] = _gives_the_logits(model, head)
    return head if _plain[model] else None


def _gives_the_logits(model: PreTrainedModel, head: nn.Linear) -> bool:
    vocabulary = model.config.get_text_config().vocab_size
    ids = torch.arange(1, 6, device=model.device)[None] % vocabulary
    options: dict[str, Any] = {"attention_mask": torch.ones_like(ids), "use_cache": False}
    with evaluating(model), torch.no_grad(), torch.autocast(model.device.type, enabled=False):
        hidden = getattr(model.base_model(input_ids=ids, **options), "last_hidden_state", None)
        if hidden is None or hidden.shape[-1] != head.in_features:
            return False
        found = head(hidden)
        # accelerate replaces ``forward`` by one of its own precision, and keeps the model's.
        return any(
            _are_close(forward(input_ids=ids, **options).logits, found)
            for forward in (model, vars(model).get("_original_forward"))
            if forward is not None
        )


def _are_close(expected: Tensor, found: Tensor) -> bool:
    return expected.shape == found.shape and torch.allclose(
        expected.float(), found.float(), rtol=1e-4, atol=1e-5, equal_nan=True
    )


BLOCK, TOKENS = 2**20, 2048
"""Logits computed at once on a CPU, whose cache holds them, and of how many tokens at most."""
CUDA_BLOCK, CUDA_TOKENS = 2**27, 4096
"""The same on a GPU: 512 MiB, and half of that in 16 bits for the backward pass. A block's product
then takes longer than its launches, and a vocabulary of 151,936 words is five blocks. The size does
not depend on free memory, on which log-probs would then depend as well."""


def selected_logprobs(
    hidden: Float[Tensor, "tokens size"],
    head: nn.Linear,
    targets: Int[Tensor, "tokens"],
    temperature: float,
) -> Float[Tensor, "tokens"]:
    """Log-probs of the targets, in float32 (float64 for float64).

    Equation: log softmax(head(hidden) / temperature)[target] for each token.

    Differentiable in ``hidden`` and in the weight and the bias of ``head``. Under autocast the
    matrix products run in its dtype, all else in float32. On CUDA in 16 bits, cut-cross-entropy
    computes them if it is installed.

    Units: nats.
    """
    device, dtype = hidden.device.type, product_dtype(hidden)
    if head.bias is None and takes_cut_cross_entropy(device, dtype):
        return cut_logprobs(hidden, head.weight, targets, temperature, dtype=dtype)
    found: Tensor = _SelectedLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden, head.weight, head.bias, targets, temperature, dtype
    )
    return found


def product_dtype(hidden: Tensor) -> torch.dtype:
    """The precision of matrix products of hidden states here and now."""
    device = hidden.device.type
    if hidden.dtype == torch.float64:  # autocast does not change float64
        return torch.float64
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def _stays_wide(numbers: Tensor) -> bool:
    """True if the kernel writes float32 products of these directly: 16 bits on CUDA."""
    # Not ROCm, which is named cuda as well and lacks these kernels.
    return numbers.is_cuda and numbers.dtype.itemsize == 2 and torch.version.hip is None


def product(left: Tensor, right: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product, wide where the device gives it so, else in the precision of ``left``.

    ``out`` may be wider than that.
    """
    if _stays_wide(left):
        return torch.mm(left, right, out_dtype=torch.float32, out=out)
    if out is None or out.dtype == left.dtype:
        return torch.mm(left, right, out=out)
    return out.copy_(left @ right)


def add_product(total: Tensor, left: Tensor, right: Tensor, *, first: bool = False) -> None:
    """Add a matrix product to ``total``, which may be wider, or put the ``first`` one there."""
    if first:
        product(left, right, out=total)
    elif left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(product(left, right))


class HeadWeights(NamedTuple):
    """A linear output layer and how its products become log-probs."""

    weight: Float[Tensor, "vocabulary size"]
    bias: Float[Tensor, "vocabulary"] | None
    temperature: float
    dtype: torch.dtype
    """Of the products; everything else is float32, or float64 where the products are."""


class _SelectedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "tokens size"],
        weight: Float[Tensor, "vocabulary size"],
        bias: Float[Tensor, "vocabulary"] | None,
        targets: Int[Tensor, "tokens"],
        temperature: float,
        dtype: torch.dtype,
    ) -> Float[Tensor, "tokens"]:
        logits = _Logits(hidden, HeadWeights(weight, bias, temperature, dtype))
        log_sum, chosen = logits.new_numbers(len(hidden)), logits.new_numbers(len(hidden))
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in logits.token_blocks():
                chosen[rows] = logits.at(rows, targets[rows])
                log_sum[rows] = _log_sum(logits, rows)
        ctx.save_for_backward(hidden, weight, bias, targets, log_sum)
        ctx.temperature, ctx.dtype = temperature, dtype
        return chosen - log_sum

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "tokens"]) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, log_sum = ctx.saved_tensors
        logits = _Logits(hidden, HeadWeights(weight, bias, ctx.temperature, ctx.dtype))
        scale = grad.to(log_sum.dtype) / ctx.temperature
        minus_scale = -scale[:, None]
        of_hidden = torch.empty_like(hidden, dtype=log_sum.dtype)
        of_weight = None  # nothing asks for that of a frozen head
        if ctx.needs_input_grad[1]:
            of_weight = torch.empty_like(weight, dtype=log_sum.dtype)
        of_bias = None if bias is None else torch.zeros_like(bias, dtype=log_sum.dtype)
        with torch.autocast(hidden.device.type, enabled=False):
            for rows in logits.token_blocks():
                for words, some in logits.word_blocks():
                    table = logits.block(rows, words, some, minus=log_sum[rows])
                    table.exp_().mul_(minus_scale[rows])
                    at = targets[rows] - words.start
                    place = at.clamp(0, table.shape[1] - 1)
                    # Not nonzero(), for which the host would wait.
                    table.scatter_add_(1, place[:, None], (scale[rows] * (at == place))[:, None])
                    table = table.to(ctx.dtype)
                    add_product(of_hidden[rows], table, some, first=words.start == 0)
                    if of_weight is not None:
                        add_product(
                            of_weight[words], table.T, logits.hidden[rows], first=rows.start == 0
                        )
                    if of_bias is not None:
                        of_bias[words] += table.sum(dim=0)
        of_weight = None if of_weight is None else of_weight.to(weight.dtype)
        of_bias = None if of_bias is None else of_bias.to(bias.dtype)
        return (of_hidden.to(hidden.dtype), of_weight, of_bias, None, None, None)


class _Logits:
    """Blocks of logits / temperature, in one buffer."""

    def __init__(self, hidden: Tensor, head: HeadWeights) -> None:
        self.hidden = hidden.to(head.dtype)
        self.weight, self.bias = head.weight, head.bias
        self.temperature, self.dtype = head.temperature, head.dtype
        block, tokens = (CUDA_BLOCK, CUDA_TOKENS) if hidden.is_cuda else (BLOCK, TOKENS)
        self.tokens = min(tokens, max(len(hidden), 1))
        self.words = min(max(block // self.tokens, 1), len(head.weight))
        self.buffer = self.new_numbers(self.tokens * self.words)

    def new_numbers(self, count: int) -> Tensor:
        return self.hidden.new_empty(count, dtype=torch.promote_types(self.dtype, torch.float32))

    def token_blocks(self) -> Iterator[slice]:
        for start in range(0, max(len(self.hidden), 1), self.tokens):  # none are a block as well
            yield slice(start, min(start + self.tokens, len(self.hidden)))

    def word_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of the vocabulary, and their weights in the precision of the products."""
        for start in range(0, len(self.weight), self.words):
            words = slice(start, min(start + self.words, len(self.weight)))
            yield words, self.weight[words].to(self.dtype)

    def block(
        self, rows: slice, words: slice, weight: Tensor, *, minus: Tensor | None = None
    ) -> Tensor:
        """Logits of ``rows`` and ``words`` over the temperature, less ``minus`` of each row."""
        shape = (rows.stop - rows.start, len(weight))
        table = self.buffer[: shape[0] * shape[1]].view(shape)
        product(self.hidden[rows], weight.T, out=table)
        if self.bias is not None:
            table.add_(self.bias[words])
        if self.temperature != 1:
            table.div_(self.temperature)
        if minus is not None:
            table.sub_(minus[:, None])
        return table

    def at(self, rows: slice, targets: Tensor) -> Tensor:
        """Logits of one word a row over the temperature."""
        weight = self.weight.index_select(0, targets).to(self.dtype)
        numbers = self.buffer.dtype
        chosen = (self.hidden[rows].to(numbers) * weight).sum(dim=-1)
        if not _stays_wide(weight):
            chosen = chosen.to(self.dtype).to(numbers)
        if self.bias is not None:
            chosen = chosen + self.bias.index_select(0, targets)
        return chosen if self.temperature == 1 else chosen / self.temperature


def _log_sum(logits: _Logits, rows: slice) -> Float[Tensor, "rows"]:
    """The log of the softmax's sum of every row."""
    # Not -inf: a block may hold only words that the bias rules out.
    largest: Any = torch.finfo(logits.buffer.dtype).min
    total: Any = 0.0
    for words, weight in logits.word_blocks():
        table = logits.block(rows, words, weight)
        before, largest = largest, table.amax(dim=1).clamp_(min=largest)
        shrink = (before - largest).exp_()
        total = shrink * total + table.sub_(largest[:, None]).exp_().sum(dim=1)
    found: Tensor = largest + total.log()
    return found


TABLE, CUDA_TABLE = 2**24, 2**26
"""Numbers in one table on a CPU, and on a GPU, whose kernels take longer for 256 MiB than it takes
to launch them. A pass over the vocabulary holds at most ``TABLES`` of them, in addition to the
statistic's own."""
TABLES = 5
"""Products, log-probs, their gradient, that of the products, and one in the products' precision."""

Statistic = Callable[[Float[Tensor, "positions vocabulary"], slice], Tensor]
"""Called with the log-probs (nats) of a block and with its place among all positions; returns
``[positions, values]`` of the block. It may be called twice and must say the same both times."""


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
    ``TABLE`` numbers and what the statistic makes of one.
    """
    found: Tensor = _OverVocabulary.apply(  # type: ignore[no-untyped-call]
        hidden, head.weight, head.bias, statistic, temperature, product_dtype(hidden)
    )
    return found


def blocks(positions: int, vocabulary: int, *, cuda: bool = False) -> Iterator[slice]:
    """Positions whose tables hold at most ``TABLE`` numbers, or one position."""
    size = max(1, (CUDA_TABLE if cuda else TABLE) // vocabulary)
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
