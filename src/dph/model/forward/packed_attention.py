"""Exact attention of packed rows: the keys and values of a stem serve all its continuations.

A token attends causally to its own node and to the whole of every stem above. The parts are
computed apart and merged one after the other by the logs of their softmax's sums (`merge`).
Neither scores nor repeated keys are kept for the backward pass.

Two forms compute it. On CUDA in 16 bits, all nodes are one kernel call and each level of stems one
more, for any number of rows (`takes_flash`). Otherwise, with softcaps and with heads that
FlashAttention does not take, parts of similar lengths are padded tables for `kernel_for`: torch's
kernel on a CPU, `Explicit` in float32 on CUDA, which keeps the scores of one table at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from dph.errors import ModelError
from dph.model.forward.kernels import (
    AttentionPart,
    FlashPart,
    Kernel,
    QueryKeyValue,
    Scoring,
    Segments,
    flash,
    flash_backward,
    kernel_for,
    merge,
    takes_flash,
)
from dph.model.forward.packing import Branches, PackedRows, Span, to_device, tokens_of_spans


class PackedAttention:
    """Attention of one packed sequence; an `Attend` for every layer of a model.

    There may be more keys and values, behind those of the rows' own tokens: stems may consist of
    them. Such a layer has no gradient.
    """

    def __init__(self, rows: PackedRows) -> None:
        self._rows = rows

    # The first layer's call, within autocast, decides which of the two forms is needed.

    @cached_property
    def tables(self) -> list["_Tables"]:
        """Parts of the rows, those within nodes first."""
        device, levels = self._rows.ids.device, self._rows.levels
        nodes = (token_table(spans, device=device) for spans in _bundles(self._rows.sequences))
        shared = (some for level in levels for some in _shared_bundles(level))
        return [
            *(_Tables(table, table, causal=True) for table in nodes),
            *(_shared_tables(some, device) for some in shared),
        ]

    @cached_property
    def calls(self) -> list["_Call"]:
        """Calls of FlashAttention, that within nodes first; one copy sends all of their tables."""
        rows = self._rows
        sides: list[Sequence[Span]] = [rows.sequences, rows.sequences]
        for level in rows.levels:
            sides += [[some.tokens for some in level], [some.stem for some in level]]
        most = [max(span.length for span in side) for side in sides]
        ends = [np.array([0, *accumulate(s.length for s in side)], np.int32) for side in sides]
        tokens = [tokens_of_spans(side) for side in sides]
        device = iter(to_device([*ends, *tokens], rows.ids.device))
        tables = [next(device) for _ in sides]
        # A view where the tokens are neighbours, as all branches of one level of prompts are.
        places = [
            slice(int(at[0]), int(at[-1]) + 1) if (np.diff(at) == 1).all() else index
            for at, index in zip(tokens, device, strict=True)
        ]
        segments = [
            Segments(tables[i], tables[i + 1], most[i], most[i + 1])
            for i in range(0, len(sides), 2)
        ]
        return [_Call(*each) for each in zip(segments, places[::2], places[1::2], strict=True)]

    def __call__(
        self,
        module: nn.Module,
        query: Float[Tensor, "1 heads tokens size"],
        key: Float[Tensor, "1 kv_heads keys size"],
        value: Float[Tensor, "1 kv_heads keys size"],
        *,
        scaling: float | None = None,
        dropout: float = 0.0,
        softcap: float | None = None,
        sliding_window: int | None = None,
        **options: Any,
    ) -> Float[Tensor, "1 tokens heads size"]:
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
            out: Tensor = _Flash.apply(query, key, value, self.calls, scaling)  # type: ignore[no-untyped-call]
        else:
            out = _Tabled.apply(query, key, value, self.tables, scaling, softcap)  # type: ignore[no-untyped-call]
        return out[None]


_NOT_COMPUTED = ("s_aux", "position_bias", "head_mask", "cache")
_NO_GRADIENT = "keys behind those of the rows' own tokens have no gradient"


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

    Computed as: a view if the spans are neighbours of one length, otherwise a gather.
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
        *,
        add: bool = False,
    ) -> None:
        """Write the table's values of its tokens into ``values``, or add them."""
        if self.padding is None:
            place = self._in_place(values)
            (place.add_ if add else place.copy_)(table)
        else:
            real = table.transpose(1, 2).flatten(0, 1).index_select(0, self.padding.places)
            put = values.index_add_ if add else values.index_copy_
            put(0, self.padding.tokens, real)

    def _in_place(self, values: Tensor) -> Tensor:
        """The table as a view of ``values``, where there is no padding."""
        return self._shaped(values[self.start : self.start + self.count * self.length])

    def _shaped(self, places: Tensor) -> Tensor:
        return places.view(self.count, self.length, *places.shape[1:]).transpose(1, 2)


def token_table(spans: Sequence[Span], *, device: torch.device) -> TokenTable:
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


class _Tables(NamedTuple):
    """Parts of packed rows for one call of a kernel: nodes, or branches and their stems."""

    queries: TokenTable
    keys: TokenTable
    causal: bool
    bias: Float[Tensor, "stems 1 1 tokens"] | None = None


class _Tabled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Float[Tensor, "tokens heads size"],
        key: Float[Tensor, "keys kv_heads size"],
        value: Float[Tensor, "keys kv_heads size"],
        tables: Sequence[_Tables],
        scaling: float,
        softcap: float | None,
    ) -> Float[Tensor, "tokens heads size"]:
        kernel = kernel_for(query, value, softcap=softcap)
        tokens, heads, _ = query.shape
        out = query.new_empty(tokens, heads, value.shape[-1])
        log_sum = query.new_empty(
            tokens, heads, dtype=torch.promote_types(query.dtype, torch.float32)
        )
        for queries, keys, causal, bias in tables:
            scoring = Scoring(scaling, softcap, causal, bias)
            taken = queries.take(query), keys.take(key), keys.take(value)
            mixed, its_sum = kernel.forward(*_by_head(*taken), scoring)
            shape = queries.count, heads, queries.length
            part = AttentionPart(mixed.reshape(*shape, -1), its_sum.reshape(shape))
            if not causal:
                part = merge(part, AttentionPart(queries.take(out), queries.take(log_sum)))
            queries.put(out, part.out)
            queries.put(log_sum, part.log_sum)
        ctx.save_for_backward(query, key, value, out, log_sum)
        ctx.tables, ctx.scaling, ctx.softcap, ctx.kernel = tables, scaling, softcap, kernel
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "tokens heads size"]) -> tuple[Tensor | None, ...]:
        query, key, value, out, log_sum = ctx.saved_tensors
        assert len(key) == len(query), _NO_GRADIENT
        grad = _dense(grad)
        grads = tuple(x.new_empty(x.shape) for x in (query, key, value))
        for queries, keys, causal, bias in ctx.tables:
            taken = queries.take(query), keys.take(key), keys.take(value)
            part = AttentionPart(queries.take(out), queries.take(log_sum))
            scoring = Scoring(ctx.scaling, ctx.softcap, causal, bias)
            found = _backward(ctx.kernel, queries.take(grad, fill=0.0), taken, part, scoring)
            for table, whole, some in zip((queries, keys, keys), grads, found, strict=True):
                table.put(whole, some, add=not causal)
        return (*grads, None, None, None)


def _backward(
    kernel: Kernel, grad: Tensor, tensors: QueryKeyValue, part: AttentionPart, scoring: Scoring
) -> QueryKeyValue:
    query, key, value = tensors
    batch, kv_heads = key.shape[:2]
    grad, *whole = (_grouped(x, kv_heads) for x in (grad, *part))
    found = kernel.backward(grad, _by_head(*tensors), AttentionPart(*whole), scoring)
    of_key, of_value = (  # the dtype, because autocast on CUDA makes sums float32
        of_part
        if query.shape[1] == kv_heads
        else of_part.reshape(batch, kv_heads, -1, *x.shape[2:]).sum(2, dtype=x.dtype)
        for of_part, x in zip(found[1:], (key, value), strict=True)
    )
    return found[0].reshape(query.shape), of_key, of_value


def _by_head(query: Tensor, key: Tensor, value: Tensor) -> QueryKeyValue:
    """Keys and values for every query head: expanded for one sequence, copied for several."""
    kv_heads, repeats = key.shape[1], query.shape[1] // key.shape[1]
    if repeats > 1 and len(key) == 1:
        key, value = (x[0][:, None].expand(-1, repeats, -1, -1) for x in (key, value))
    elif repeats > 1:
        key, value = (x.repeat_interleave(repeats, dim=1) for x in (key, value))
    return _grouped(query, kv_heads), key, value


def _grouped(x: Tensor, kv_heads: int) -> Tensor:
    """One sequence's query heads as a batch of key-value heads, so that keys need no copy."""
    return x if len(x) > 1 or x.shape[1] == kv_heads else x[0].view(kv_heads, -1, *x.shape[2:])


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


def _shared_tables(shared: Sequence[Branches], device: torch.device) -> _Tables:
    queries = token_table([some.tokens for some in shared], device=device)
    keys = token_table([some.stem for some in shared], device=device)
    lengths = np.array([some.stem.length for some in shared])[:, None]
    bias = None
    if lengths.min() < keys.length:
        unseen = np.where(np.arange(keys.length) < lengths, np.float32(0), np.float32(-np.inf))
        (bias,) = to_device([unseen[:, None, None]], device)
    return _Tables(queries, keys, causal=False, bias=bias)


class _Call(NamedTuple):
    """A kernel call: its segments, and where its queries and keys stand in the packed sequence."""

    segments: Segments
    queries: slice | Int[Tensor, "queries"]
    keys: slice | Int[Tensor, "keys"]


def _at(
    values: Shaped[Tensor, "..."], where: slice | Int[Tensor, "tokens"], dim: int = 0
) -> Shaped[Tensor, "..."]:
    if isinstance(where, slice):
        return values.narrow(dim, where.start, where.stop - where.start)
    return values.index_select(dim, where)


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Float[Tensor, "tokens heads size"],
        key: Float[Tensor, "keys kv_heads size"],
        value: Float[Tensor, "keys kv_heads size"],
        calls: Sequence[_Call],
        scaling: float,
    ) -> Float[Tensor, "tokens heads size"]:
        (segments, _, own), *levels = calls
        nodes = flash(query, _at(key, own), _at(value, own), segments, scaling=scaling, causal=True)
        out, log_sum, random = nodes
        for segments, q, k in levels:
            stem = flash(_at(query, q), _at(key, k), _at(value, k), segments, scaling=scaling)
            mixed, its_sum = _at(out, q), _at(log_sum, q, dim=1)
            weight = torch.sigmoid(stem.log_sum - its_sum).T[..., None].to(mixed.dtype)
            mixed.lerp_(stem.out, weight)  # as `merge` does, but in place
            torch.logaddexp(its_sum, stem.log_sum, out=its_sum)
            if not isinstance(q, slice):
                out.index_copy_(0, q, mixed)
                log_sum.index_copy_(1, q, its_sum)
        ctx.save_for_backward(query, key, value, out, log_sum, *random)
        ctx.calls, ctx.scaling = calls, scaling
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "tokens heads size"]) -> tuple[Tensor | None, ...]:
        query, key, value, out, log_sum, *random = ctx.saved_tensors
        assert len(key) == len(query), _NO_GRADIENT
        grads: tuple[Tensor, ...] = ()
        for segments, q, k in ctx.calls:
            whole = FlashPart(_at(out, q), _at(log_sum, q, dim=1).contiguous(), tuple(random))
            tensors = _at(grad, q), _at(query, q), _at(key, k), _at(value, k)
            found = flash_backward(*tensors, whole, segments, scaling=ctx.scaling, causal=not grads)
            for where, total, some in zip((q, k, k), grads, found, strict=False):
                if isinstance(where, slice):
                    _at(total, where).add_(some)
                else:
                    total.index_add_(0, where, some)
            grads = grads or found
        return (*grads, None, None)
