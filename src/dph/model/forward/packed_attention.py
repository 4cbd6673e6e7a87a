"""Exact attention of packed rows: the keys and values of a stem serve all its continuations.

A token attends causally to its own node and to the whole of every stem above. The parts are
computed apart and merged one after the other by the logs of their softmax's sums (`merge`).
Neither scores nor repeated keys are kept for the backward pass.

Two forms compute it. On CUDA in 16 bits a level of stems is one kernel call (`varlen_attention`).
Everywhere else, with softcaps and with heads that FlashAttention does not take, parts of similar
lengths are padded tables (`TokenTable`) for `kernel_for`: on a CPU torch's kernel, and in float32
on CUDA matrix products and a softmax (`Explicit`), whose scores of a table are in memory at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from dph.errors import ModelError
from dph.model.attention.kernels import (
    AttentionPart,
    Kernel,
    Scoring,
    kernel_for,
    merge,
    takes_flash,
)
from dph.model.forward.packing import Branches, PackedRows, Span
from dph.model.forward.transfer import to_device
from dph.model.forward.varlen_attention import VarlenCall, varlen_attention, varlen_calls

# Parts of a packed sequence as rectangular tables, so that one kernel call handles many.


@dataclass(frozen=True, slots=True)
class _Padding:
    """Padding of the tokens of spans of different lengths in a table."""

    index: Int[Tensor, "places"]
    """The token at every place of the table; at padding any token."""
    tokens: Int[Tensor, "tokens"]
    places: Int[Tensor, "tokens"]
    """Position of each of ``tokens`` in the table."""
    empty: Int[Tensor, "padding"]


@dataclass(frozen=True, slots=True)
class TokenTable:
    """``count`` spans, padded on the right to ``length`` tokens, of a packed sequence.

    Computed as: a view where the spans are neighbours of one length, a gather elsewhere.
    """

    count: int
    length: int
    start: int
    padding: _Padding | None

    def take(
        self, values: Shaped[Tensor, "tokens heads *size"], *, fill: float | None = None
    ) -> Shaped[Tensor, "count heads length *size"]:
        """The values of the table's tokens; padding holds ``fill``, or anything when None."""
        if self.padding is None:
            return self._in_place(values)
        places = values.index_select(0, self.padding.index)
        if fill is not None:
            places.index_fill_(0, self.padding.empty, fill)
        return self._shaped(places)

    def put(
        self,
        values: Shaped[Tensor, "tokens heads *size"],
        table: Shaped[Tensor, "count heads length *size"],
    ) -> None:
        """Write the table's values of its tokens into ``values``."""
        if self.padding is None:
            self._in_place(values).copy_(table)
        else:
            values.index_copy_(0, self.padding.tokens, _real(table, self.padding))

    def add(
        self,
        values: Shaped[Tensor, "tokens heads *size"],
        table: Shaped[Tensor, "count heads length *size"],
    ) -> None:
        """Add the table's values of its tokens to ``values``."""
        if self.padding is None:
            self._in_place(values).add_(table)
        else:
            values.index_add_(0, self.padding.tokens, _real(table, self.padding))

    def _in_place(self, values: Tensor) -> Tensor:
        """The table as a view of ``values``, where there is no padding."""
        return self._shaped(values[self.start : self.start + self.count * self.length])

    def _shaped(self, places: Tensor) -> Tensor:
        return places.view(self.count, self.length, *places.shape[1:]).transpose(1, 2)


def _real(table: Tensor, padding: _Padding) -> Tensor:
    """The values of the table's tokens, without its padding."""
    return table.transpose(1, 2).flatten(0, 1).index_select(0, padding.places)


def token_table(spans: Sequence[Span], *, device: torch.device) -> TokenTable:
    """The table of ``spans``: one span for each row, in the order given."""
    length, start = max(span.length for span in spans), spans[0].start
    if all(span == Span(start + i * length, length) for i, span in enumerate(spans)):
        return TokenTable(len(spans), length, start, None)
    starts = np.array([span.start for span in spans])[:, None]
    lengths = np.array([span.length for span in spans])[:, None]
    columns = np.arange(length)
    real = (columns < lengths).ravel()
    index = (starts + np.minimum(columns, lengths - 1)).ravel()
    tables = [index, index[real], np.flatnonzero(real), np.flatnonzero(~real)]
    return TokenTable(len(spans), length, start, _Padding(*to_device(tables, device)))


_WASTE = 4096
"""Scores a head that padding may cost before another kernel call is cheaper."""


@dataclass(frozen=True, slots=True)
class _SharedTable:
    """Branches of some stems, and the stems that they see all of."""

    branches: TokenTable
    stems: TokenTable
    bias: Float[Tensor, "stems 1 1 tokens"] | None


@dataclass(frozen=True, slots=True)
class _Tables:
    """Parts of packed rows, for one kernel call each."""

    causal: list[TokenTable]
    shared: list[_SharedTable]


class PackedAttention:
    """Attention of one packed sequence; an `Attend` for every layer of a model.

    The keys and values may have more tokens than the queries, behind those of the rows' own: stems
    may consist of them. Their gradient is not computed.
    """

    def __init__(self, rows: PackedRows) -> None:
        self._rows = rows

    # Which form it takes is known when the first layer calls, within autocast.

    @cached_property
    def tables(self) -> _Tables:
        """The padded tables of the rows."""
        rows, device = self._rows, self._rows.ids.device
        return _Tables(
            causal=[token_table(spans, device=device) for spans in _bundles(rows.sequences)],
            shared=[
                _shared_table(some, device)
                for level in rows.levels
                for some in _shared_bundles(level)
            ],
        )

    @cached_property
    def _calls(self) -> list[VarlenCall]:
        return varlen_calls(self._rows)

    def __call__(
        self,
        module: nn.Module,
        query: Float[Tensor, "1 heads tokens size"],
        key: Float[Tensor, "1 kv_heads tokens size"],
        value: Float[Tensor, "1 kv_heads tokens size"],
        *,
        scaling: float | None = None,
        dropout: float = 0.0,
        softcap: float | None = None,
        sliding_window: int | None = None,
        **options: Any,
    ) -> Float[Tensor, "1 tokens heads size"]:
        """Attention of one layer.

        Raises:
            ModelError: the layer's attention is something else than this can compute.
        """
        odd = sorted(name for name in _NOT_COMPUTED if options.get(name) is not None)
        if odd or dropout or (sliding_window is not None and sliding_window < self._rows.longest):
            what = odd[0] if odd else "dropout" if dropout else f"a window of {sliding_window}"
            raise ModelError(f"packed attention cannot compute {what} ({type(module).__name__})")
        if torch.is_autocast_enabled(query.device.type):
            dtype = torch.get_autocast_dtype(query.device.type)
            query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        query, key, value = (_dense(x.squeeze(0).transpose(0, 1)) for x in (query, key, value))
        if takes_flash(query, value, softcap=softcap):
            return varlen_attention(query, key, value, self._calls, scaling)[None]
        out: Tensor = _Attention.apply(query, key, value, self.tables, scaling, softcap)  # type: ignore[no-untyped-call]
        return out[None]


_NOT_COMPUTED = ("s_aux", "position_bias", "head_mask", "cache")


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Float[Tensor, "tokens heads size"],
        key: Float[Tensor, "tokens kv_heads size"],
        value: Float[Tensor, "tokens kv_heads size"],
        tables: _Tables,
        scaling: float,
        softcap: float | None,
    ) -> Float[Tensor, "tokens heads size"]:
        kernel = kernel_for(query, value, softcap=softcap)
        tokens, heads, _ = query.shape
        out = query.new_empty(tokens, heads, value.shape[-1])
        log_sum = query.new_empty(
            tokens, heads, dtype=torch.promote_types(query.dtype, torch.float32)
        )
        scoring = Scoring(scaling, softcap, causal=True)
        for table in tables.causal:
            own = _forward(kernel, table.take(query), table.take(key), table.take(value), scoring)
            table.put(out, own.out)
            table.put(log_sum, own.log_sum)
        for some in tables.shared:
            scoring = Scoring(scaling, softcap, bias=some.bias)
            stem = _forward(
                kernel,
                some.branches.take(query),
                some.stems.take(key),
                some.stems.take(value),
                scoring,
            )
            own = AttentionPart(some.branches.take(out), some.branches.take(log_sum))
            both = merge(stem, own)
            some.branches.put(out, both.out)
            some.branches.put(log_sum, both.log_sum)
        ctx.save_for_backward(query, key, value, out, log_sum)
        ctx.tables, ctx.scaling, ctx.softcap, ctx.kernel = tables, scaling, softcap, kernel
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "tokens heads size"]) -> tuple[Tensor | None, ...]:
        query, key, value, out, log_sum = ctx.saved_tensors
        assert len(key) == len(query), "borrowed keys have no gradient"
        grad = _dense(grad)
        grads = tuple(x.new_empty(x.shape) for x in (query, key, value))
        scoring = Scoring(ctx.scaling, ctx.softcap, causal=True)
        for table in ctx.tables.causal:
            own = _backward(
                ctx.kernel,
                table.take(grad, fill=0.0),
                table.take(query),
                table.take(key),
                table.take(value),
                table.take(out),
                table.take(log_sum),
                scoring,
            )
            for whole, part in zip(grads, own, strict=True):
                table.put(whole, part)
        for some in ctx.tables.shared:
            of_query, of_key, of_value = _backward(
                ctx.kernel,
                some.branches.take(grad, fill=0.0),
                some.branches.take(query),
                some.stems.take(key),
                some.stems.take(value),
                some.branches.take(out),
                some.branches.take(log_sum),
                Scoring(ctx.scaling, ctx.softcap, bias=some.bias),
            )
            some.branches.add(grads[0], of_query)
            some.stems.add(grads[1], of_key)
            some.stems.add(grads[2], of_value)
        return (*grads, None, None, None)


def _forward(
    kernel: Kernel, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring
) -> AttentionPart:
    batch, heads = query.shape[:2]
    query, key, value = _grouped(query, key.shape[1], heads), *_repeated(key, value, heads)
    out, log_sum = kernel.forward(query, key, value, scoring)
    return AttentionPart(
        out.reshape(batch, heads, *out.shape[2:]), log_sum.reshape(batch, heads, -1)
    )


def _backward(
    kernel: Kernel,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    log_sum: Tensor,
    scoring: Scoring,
) -> tuple[Tensor, Tensor, Tensor]:
    shape, kv_shape = query.shape, key.shape
    heads, kv_heads = shape[1], kv_shape[1]
    grad, query, out, log_sum = (_grouped(x, kv_heads, heads) for x in (grad, query, out, log_sum))
    key, value = _repeated(key, value, heads)
    of_query, of_key, of_value = kernel.backward(grad, query, key, value, out, log_sum, scoring)
    if heads != kv_heads:
        parts = (kv_shape[0], kv_heads, heads // kv_heads)
        of_key, of_value = (  # the dtype, because autocast on CUDA makes sums float32
            x.reshape(*parts, *x.shape[2:]).sum(2, dtype=x.dtype) for x in (of_key, of_value)
        )
    return of_query.reshape(shape), of_key, of_value


def _grouped(x: Tensor, kv_heads: int, heads: int) -> Tensor:
    """One sequence's query heads as a batch of key-value heads, so that keys need no copy."""
    if x.shape[0] > 1 or heads == kv_heads:
        return x
    return x[0].view(kv_heads, heads // kv_heads, *x.shape[2:])


def _repeated(key: Tensor, value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Keys and values for every query head: expanded for one sequence, copied for several."""
    repeats = heads // key.shape[1]
    if repeats == 1:
        return key, value
    if key.shape[0] == 1:
        key, value = (x[0][:, None].expand(-1, repeats, -1, -1) for x in (key, value))
        return key, value
    return key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)


def _dense(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _bundles(spans: Sequence[Span]) -> list[list[Span]]:
    """Spans of similar lengths together, so that padding them wastes little."""
    bundles: list[list[Span]] = []
    waste = 0
    for span in sorted(spans, key=lambda span: (-span.length, span.start)):
        waste += bundles[-1][0].length ** 2 - span.length**2 if bundles else 0
        if not bundles or waste > _WASTE:
            bundles.append([])
            waste = 0
        bundles[-1].append(span)
    return bundles


def _shared_bundles(shared: Sequence[Branches]) -> list[list[Branches]]:
    """Stems with few branches together, as in `_bundles`."""
    bundles: list[list[Branches]] = []
    longest = spread = used = 0
    for some in sorted(shared, key=lambda some: (-some.stem.length, -some.tokens.length)):
        size = some.stem.length * some.tokens.length
        width = max(spread, some.tokens.length)
        padded = (len(bundles[-1]) + 1) * longest * width if bundles else 0
        if not bundles or padded - used - size > _WASTE:
            bundles.append([])
            longest, width, used = some.stem.length, some.tokens.length, 0
        bundles[-1].append(some)
        spread, used = width, used + size
    return bundles


def _shared_table(shared: Sequence[Branches], device: torch.device) -> _SharedTable:
    stems = token_table([some.stem for some in shared], device=device)
    lengths = np.array([some.stem.length for some in shared])[:, None]
    bias = None
    if lengths.min() < stems.length:
        unseen = np.where(np.arange(stems.length) < lengths, np.float32(0), np.float32(-np.inf))
        (bias,) = to_device([unseen[:, None, None]], device)
    return _SharedTable(token_table([some.tokens for some in shared], device=device), stems, bias)
