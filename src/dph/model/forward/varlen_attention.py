"""Packed rows through FlashAttention of packed sequences: kernel calls do not grow with the rows.

All nodes are one causal call, and all branches of a level of stems one more, which is merged into
the first. Grouped heads are the kernel's own business, and nothing is copied where the tokens of a
level are neighbours, as `pack` lays one level of prompts out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from dph.model.attention.kernels import FlashPart, Segments, flash, flash_backward
from dph.model.forward.packing import PackedRows, Span, tokens_of_spans
from dph.model.forward.transfer import to_device


@dataclass(frozen=True, slots=True)
class _Side:
    """Spans that are the queries or the keys of one kernel call."""

    ends: Int[Tensor, "spans+1"]
    longest: int
    start: int
    tokens: int
    index: Int[Tensor, "tokens"] | None
    """The tokens; None where they are neighbours, from ``start`` on."""

    def take(self, values: Shaped[Tensor, "..."], dim: int = 0) -> Shaped[Tensor, "..."]:
        """The values of the tokens: a view where they are neighbours."""
        if self.index is None:
            return values.narrow(dim, self.start, self.tokens)
        return values.index_select(dim, self.index)

    def add(self, values: Shaped[Tensor, "..."], more: Shaped[Tensor, "..."]) -> None:
        """Add to the values of the tokens, of which each may stand in several spans."""
        if self.index is None:
            self.take(values).add_(more)
        else:
            values.index_add_(0, self.index, more)


class VarlenCall(NamedTuple):
    """One kernel call."""

    queries: _Side
    keys: _Side

    @property
    def segments(self) -> Segments:
        """Places of both sides, as the kernel takes them."""
        queries, keys = self.queries, self.keys
        return Segments(queries.ends, keys.ends, queries.longest, keys.longest)


def varlen_calls(rows: PackedRows) -> list[VarlenCall]:
    """The nodes within themselves, and each level of branches over their stems.

    Computed as: one copy of all tables to the device.
    """
    sides: list[Sequence[Span]] = [rows.sequences, rows.sequences]
    for level in rows.levels:
        sides += [[some.tokens for some in level], [some.stem for some in level]]
    ends = [
        np.array([*accumulate((s.length for s in side), initial=0)], np.int32) for side in sides
    ]
    tables = to_device([*ends, *map(_scattered, sides)], rows.ids.device)
    made = [
        _Side(
            ends=tables[number],
            longest=max(span.length for span in side),
            start=side[0].start,
            tokens=int(ends[number][-1]),
            index=index if len(index) else None,
        )
        for number, (side, index) in enumerate(zip(sides, tables[len(sides) :], strict=True))
    ]
    return [VarlenCall(*pair) for pair in zip(made[::2], made[1::2], strict=True)]


def _scattered(spans: Sequence[Span]) -> NDArray[np.int64]:
    """The tokens of spans that are not neighbours; none where they are."""
    tokens = tokens_of_spans(spans)
    return tokens[:0] if (np.diff(tokens) == 1).all() else tokens


def varlen_attention(
    query: Float[Tensor, "tokens heads size"],
    key: Float[Tensor, "keys kv_heads size"],
    value: Float[Tensor, "keys kv_heads size"],
    calls: Sequence[VarlenCall],
    scaling: float,
) -> Float[Tensor, "tokens heads size"]:
    """Attention of the rows that ``calls`` were made of (`takes_flash`); differentiable.

    Keys behind those of the rows' own tokens, of which stems may consist, get no gradient.
    """
    out: Tensor = _Varlen.apply(query, key, value, calls, scaling)  # type: ignore[no-untyped-call]
    return out


class _Varlen(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Float[Tensor, "tokens heads size"],
        key: Float[Tensor, "keys kv_heads size"],
        value: Float[Tensor, "keys kv_heads size"],
        calls: Sequence[VarlenCall],
        scaling: float,
    ) -> Float[Tensor, "tokens heads size"]:
        causal, *levels = calls
        own = (query, causal.keys.take(key), causal.keys.take(value))
        out, log_sum, random = flash(*own, causal.segments, scaling=scaling, causal=True)
        for call in levels:
            branches, stems = call
            taken = (branches.take(query), stems.take(key), stems.take(value))
            found = flash(*taken, call.segments, scaling=scaling)
            # As `merge`, but in place.
            part, part_sum = branches.take(out), branches.take(log_sum, dim=1)
            weight = torch.sigmoid(found.log_sum - part_sum).T[..., None].to(part.dtype)
            part.lerp_(found.out, weight)
            torch.logaddexp(part_sum, found.log_sum, out=part_sum)
            if branches.index is not None:
                out.index_copy_(0, branches.index, part)
                log_sum.index_copy_(1, branches.index, part_sum)
        ctx.save_for_backward(query, key, value, out, log_sum, *random)
        ctx.calls, ctx.scaling = calls, scaling
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "tokens heads size"]) -> tuple[Tensor | None, ...]:
        query, key, value, out, log_sum, *random = ctx.saved_tensors
        assert len(key) == len(query), "borrowed keys have no gradient"
        causal, *levels = ctx.calls
        whole = FlashPart(out, log_sum, tuple(random))
        grads = flash_backward(
            grad, query, key, value, whole, causal.segments, scaling=ctx.scaling, causal=True
        )
        for call in levels:
            branches, stems = call
            part = FlashPart(
                branches.take(out), branches.take(log_sum, dim=1).contiguous(), tuple(random)
            )
            more = flash_backward(
                branches.take(grad),
                branches.take(query),
                stems.take(key),
                stems.take(value),
                part,
                call.segments,
                scaling=ctx.scaling,
            )
            for side, some, all_of_them in zip((branches, stems, stems), more, grads, strict=True):
                side.add(all_of_them, some)
        return (*grads, None, None)
