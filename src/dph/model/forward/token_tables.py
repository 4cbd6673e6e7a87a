"""Parts of a packed sequence as rectangular tables, so that one kernel call handles many."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from dph.model.forward.packing import Span


@dataclass(frozen=True, slots=True)
class _Padding:
    """How the tokens of spans of different lengths fill a table."""

    index: Int[Tensor, "places"]
    """The token at every place of the table; at padding any token."""
    tokens: Int[Tensor, "tokens"]
    places: Int[Tensor, "tokens"]
    """Where each of ``tokens`` stands in the table."""
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
    starts = torch.tensor([span.start for span in spans])[:, None]
    lengths = torch.tensor([span.length for span in spans])[:, None]
    columns = torch.arange(length)
    real = (columns < lengths).flatten()
    index = (starts + columns.minimum(lengths - 1)).flatten()
    padding = _Padding(
        index=index.to(device),
        tokens=index[real].to(device),
        places=real.nonzero()[:, 0].to(device),
        empty=(~real).nonzero()[:, 0].to(device),
    )
    return TokenTable(len(spans), length, start, padding)
