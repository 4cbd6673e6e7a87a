"""Where stored answers go among the policy's rows, and what each weighs: plain arithmetic.

verl gives data-parallel rank r the r-th contiguous part of a batch and cuts that into
consecutive mini-batches. The order made here gives every (rank, mini-batch) the policy rows that
it has without us, in their order, followed by an equal number of stored rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from dph.errors import SettingsError
from dph.loss.objectives import Reduction, row_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """How a batch is cut: data-parallel ranks, and mini-batches on each."""

    ranks: int
    minibatches: int

    @property
    def count(self) -> int:
        """The number of (rank, mini-batch) pairs."""
        return self.ranks * self.minibatches


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """An order of all rows, numbered policy first and stored after, and who shares a mini-batch."""

    order: tuple[int, ...]
    minibatches: tuple[tuple[int, ...], ...]


def filled(count: int, cells: Cells, *, multiple: int = 1) -> int:
    """``count`` rounded up, so that every cell can have the same multiple of ``multiple`` rows."""
    step = cells.count * multiple
    return -(-count // step) * step


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Stored rows of one anchor: their lengths, and how many at the end only fill up."""

    lengths: Sequence[int]
    filling: int = 0


def lay_out(
    policy: int, stored_lengths: Sequence[int], cells: Cells, *, filling: int = 0
) -> Layout:
    """``lay_out_all`` for one anchor."""
    return lay_out_all(policy, [StoredRows(lengths=stored_lengths, filling=filling)], cells)


def lay_out_all(policy: int, anchors: Sequence[StoredRows], cells: Cells) -> Layout:
    """Deal every anchor's rows out to the cells in turn, the longest first, back and forth.

    Filling comes after the rows that count, so that mini-batches differ by at most one answer of
    an anchor that does. Rows are numbered policy first, then anchor by anchor.

    Raises:
        SettingsError: the rows of some kind do not divide by the cells.
    """
    for name, rows in (("policy", policy), *(("stored", len(a.lengths)) for a in anchors)):
        if rows % cells.count:
            raise SettingsError(
                f"{rows} {name} rows do not divide by {cells.ranks} ranks x {cells.minibatches} "
                "mini-batches"
            )
    share = policy // cells.count
    mine = [list(range(cell * share, (cell + 1) * share)) for cell in range(cells.count)]
    first = policy
    for anchor in anchors:
        for cell, dealt in enumerate(_deal(anchor.lengths, cells.count, anchor.filling)):
            mine[cell] += [first + i for i in dealt]
        first += len(anchor.lengths)
    minibatches: list[list[int]] = [[] for _ in range(cells.minibatches)]
    for cell, rows_of_cell in enumerate(mine):
        minibatches[cell % cells.minibatches] += rows_of_cell
    order = tuple(row for rows_of_cell in mine for row in rows_of_cell)
    return Layout(order=order, minibatches=tuple(map(tuple, minibatches)))


def _deal(lengths: Sequence[int], cells: int, filling: int) -> list[list[int]]:
    used = len(lengths) - filling
    longest_first = sorted(range(used), key=lambda i: (-lengths[i], i))
    there_and_back = [*range(cells), *reversed(range(cells))]
    dealt: list[list[int]] = [[] for _ in range(cells)]
    for turn, index in enumerate(longest_first):
        dealt[there_and_back[turn % len(there_and_back)]].append(index)
    rest = iter(range(used, len(lengths)))
    for rows in dealt:
        rows += [next(rest) for _ in range(len(lengths) // cells - len(rows))]
    return dealt


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScales:
    """What the loss has to know of the whole mini-batch, a value a row.

    ``weight`` is the row's share in its anchor's term, ``policy_tokens`` the denominator of the
    policy term, ``policy_scale`` its factor.
    """

    weight: tuple[float, ...]
    policy_tokens: tuple[float, ...]
    policy_scale: tuple[float, ...]


def row_scales(
    layout: Layout,
    tokens: Sequence[int],
    *,
    policy: int,
    used: Sequence[bool],
    reduction: Reduction,
    max_tokens: int,
    normalisation: Literal["separate", "rows"],
    sources: Sequence[int] | None = None,
) -> RowScales:
    """Scales of every row, numbered as in ``layout``.

    ``separate``: each term is a mean over its own rows (the package's loss). ``rows``: all are
    taken over all rows, as in the paper's code; up to one factor that is ``separate`` with
    eta * stored rows / policy rows.

    Args:
        layout: what ``lay_out`` returned.
        tokens: answer tokens of each row that count.
        policy: number of policy rows.
        used: for each row whether it counts; rows that fill a cell up do not.
        reduction: of the anchors' terms.
        max_tokens: the longest answer, for ``fixed_length``.
        normalisation: see above.
        sources: for each row 0, or the number of its anchor from 1; by default there is one.
    """
    sources = sources or [int(row >= policy) for row in range(len(tokens))]
    weight, policy_tokens, scale = ([0.0] * len(tokens) for _ in range(3))
    for rows in layout.minibatches:
        sides = [[r for r in rows if sources[r] == kind] for kind in range(max(sources) + 1)]
        counts = [sum(used[r] for r in side) for side in sides]
        shares = [1.0] * len(sides)
        if normalisation == "rows":
            shares = [count / sum(counts) for count in counts]
        for side, share in zip(sides, shares, strict=True):
            lengths = torch.tensor([tokens[r] if used[r] else 0 for r in side], dtype=torch.int64)
            values = row_weights(lengths, reduction=reduction, max_tokens=max_tokens).tolist()
            for row, value in zip(side, values, strict=True):
                weight[row] = share * value
        denominator = float(sum(tokens[r] for r in sides[0]))
        for row in rows:
            policy_tokens[row], scale[row] = denominator, shares[0]
    return RowScales(
        weight=tuple(weight), policy_tokens=tuple(policy_tokens), policy_scale=tuple(scale)
    )
