"""Cutting rows into micro-batches by the tokens that a forward really computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dph.errors import SettingsError
from dph.model.forward.prefix_tree import Node, fed, prefix_forest, tokens_of


def microbatches(lengths: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Indices of rows, longest first, in lists whose rows x longest row fit ``token_budget``.

    Every row is in exactly one list; a row that is too long by itself gets its own. Sorting by
    length keeps padding small, and as the longest come first, memory runs out at once or never.

    >>> microbatches([3, 9, 4, 2], token_budget=9)
    [[1], [2, 0], [3]]

    Raises:
        SettingsError: ``token_budget`` is below 1.
    """
    _check(token_budget)
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * longest > token_budget:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches


class PackedBatch(NamedTuple):
    """Indices of rows, and the trees of these rows, numbered in this order."""

    rows: list[int]
    forest: list[Node]


def packed_microbatches(
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    *,
    token_budget: int,
    forest: Sequence[Node] | None = None,
) -> list[PackedBatch]:
    """Rows in batches whose packed tokens fit ``token_budget``, with similar rows together.

    Every row is in exactly one batch. Rows of one tree (`prefix_forest`) are in one batch, unless
    they are too many: then what they share is repeated in each of the batches that they fill. As
    many completion tokens at most are scored. The largest batches come first, or nearly.
    ``forest`` are the trees of all rows, where the caller has built them already.

    >>> prompts, completions = [[1] * 40] * 3 + [[2]], [[3, 4], [5, 6], [7, 8], [9]]
    >>> [batch.rows for batch in packed_microbatches(prompts, completions, token_budget=42)]
    [[0, 1], [2, 3]]

    Raises:
        SettingsError: ``token_budget`` is below 1.
    """
    _check(token_budget)
    cutting = _Cutting([len(completion) for completion in completions], token_budget)
    rows = fed(prompts, completions)
    roots = prefix_forest(rows) if forest is None else forest
    pieces = [p for root in roots for p in cutting.pieces(root, above=0)]
    return [
        batch
        for piece in cutting.first_fit(pieces, above=0)
        for batch in _recounted(piece.rows, rows, token_budget)
    ]


def _recounted(batch: list[int], rows: Sequence[Sequence[int]], budget: int) -> list[PackedBatch]:
    """A batch, halved where it is too large: few rows may not share what many would."""
    forest = prefix_forest([rows[row] for row in batch])
    if tokens_of(forest) <= budget or len(batch) == 1:
        return [PackedBatch(batch, forest)]
    middle = len(batch) // 2
    return [
        part for half in (batch[:middle], batch[middle:]) for part in _recounted(half, rows, budget)
    ]


@dataclass(slots=True)
class _Piece:
    """Rows that stay together: tokens to compute, and completion tokens to score."""

    tokens: int
    scored: int
    rows: list[int]


@dataclass(frozen=True, slots=True)
class _Cutting:
    """Trees in pieces that one forward can hold; ``above`` are the tokens before a node."""

    lengths: list[int]
    """Of the completions."""
    budget: int

    def pieces(self, node: Node, *, above: int) -> list[_Piece]:
        whole = self._piece(node.rows, above + node.tokens)
        if self._fits(whole) or len(node.rows) == 1:
            return [whole]
        path = above + node.length
        loose = self._ending(node)
        cut: list[_Piece] = []
        for child in node.children:
            below = self._piece(child.rows, child.tokens)
            if self._fits(self._piece(child.rows, path + child.tokens)):
                loose.append(below)
            else:
                cut += self.pieces(child, above=path)
        return cut + self.first_fit(loose, above=path)

    def first_fit(self, pieces: Sequence[_Piece], *, above: int) -> list[_Piece]:
        """The pieces, largest first, each joined to the first ones that leave it room."""
        joined: list[_Piece] = []
        for piece in sorted(pieces, key=lambda piece: -piece.tokens):
            for place, some in enumerate(joined):
                both = _Piece(some.tokens + piece.tokens, some.scored + piece.scored, some.rows)
                if self._fits(both):
                    joined[place] = both
                    both.rows += piece.rows
                    break
            else:
                joined.append(_Piece(above + piece.tokens, piece.scored, list(piece.rows)))
        return joined

    def _ending(self, node: Node) -> list[_Piece]:
        """The rows that do not go on after a node, one by one."""
        going_on = {row for child in node.children for row in child.rows}
        return [self._piece([row], 0) for row in node.rows if row not in going_on]

    def _piece(self, rows: list[int], tokens: int) -> _Piece:
        return _Piece(tokens, sum(self.lengths[row] for row in rows), rows)

    def _fits(self, piece: _Piece) -> bool:
        return max(piece.tokens, piece.scored) <= self.budget


def _check(token_budget: int) -> None:
    if token_budget < 1:
        raise SettingsError(f"token_budget must be at least 1, got {token_budget}")
