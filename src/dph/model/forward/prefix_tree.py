"""The tree of what rows have in common: prompts, schemas, turns, the beginnings of answers.

Rows that begin with the same tokens have the same hidden states there in every layer of a causal
model, so what they share needs to be computed only once. A node holds the tokens that all rows
passing through it have.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from dph.errors import SettingsError

Ids = Sequence[int]

LEAST_SAVED = 16
"""Tokens that sharing a node has to save, beside what the tokens below it pay for it."""
_GOING_ON = 1 / 32
"""Time of attending to one more node over that of computing a token (measured on a CPU)."""
_DEEPEST = 32
"""Shared nodes above one another: each is one more part of the attention of all below."""
_ALL = 2**31


@dataclass(slots=True)
class Node:
    """The tokens from ``start`` to ``end`` of ``rows``, and the nodes that continue them."""

    start: int
    end: int
    rows: list[int]
    children: list["Node"] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens of the node itself."""
        return self.end - self.start

    @property
    def tokens(self) -> int:
        """Tokens of the node and of all below it."""
        return self.length + tokens_of(self.children)

    @property
    def stems(self) -> int:
        """Nodes, of this one and all below it, that have continuations."""
        return bool(self.children) + sum(child.stems for child in self.children)


def tokens_of(nodes: Sequence[Node]) -> int:
    """Tokens of nodes and of all below them: what a forward computes."""
    return sum(node.tokens for node in nodes)


def fed(prompts: Sequence[Ids], completions: Sequence[Ids]) -> list[list[int]]:
    """Input of the model: rows without their last token, which predicts nothing."""
    return [[*p, *c[:-1]] for p, c in zip(prompts, completions, strict=True)]


def prefix_forest(rows: Sequence[Ids], *, least_saved: int = LEAST_SAVED) -> list[Node]:
    """The trees of ``rows``, in the order of their first rows.

    Rows share a node where that saves at least ``least_saved`` tokens, and more than it costs the
    tokens below; elsewhere each row repeats those tokens. With ``least_saved`` 0, rows share
    everything that they have in common. Equal rows count as one row.

    >>> (tree,) = prefix_forest([[1, 2, 3], [1, 2], [1, 2, 4, 5]], least_saved=0)
    >>> tree.length, [(child.rows, child.length) for child in tree.children], tree.tokens
    (2, [([0], 1), ([2], 2)], 5)
    """
    keys = [array("i", row) for row in rows]
    bytes_of = [key.tobytes() for key in keys]
    order = sorted(range(len(rows)), key=bytes_of.__getitem__)
    alike = [0, *(_alike(bytes_of[a], bytes_of[b]) // keys[0].itemsize for a, b in pairwise(order))]
    return _Growing(order, alike, [len(row) for row in rows], least_saved).forest()


@dataclass(frozen=True, slots=True)
class _Growing:
    """Rows in an ``order`` in which those that begin alike are neighbours."""

    order: list[int]
    alike: list[int]
    """Number of tokens that each has in common with the one before it."""
    lengths: list[int]
    least_saved: int

    def forest(self) -> list[Node]:
        roots: list[Node] = []
        waiting = [(0, len(self.order), 0, 0, roots)] if self.order else []
        while waiting:
            first, last, start, depth, siblings = waiting.pop()
            common = self._common(first, last)
            if common == self._length(last - 1) or self._is_worth_it(first, last, start, common):
                node = Node(start, common, sorted(self.order[first:last]))
                siblings.append(node)
                start, depth, siblings = common, depth + 1, node.children
            waiting += [
                (begin, end, start, depth, siblings)
                for begin, end in self._parts(first, last, _ALL if depth == _DEEPEST else common)
                if self._length(end - 1) > start
            ]
        return _in_order(roots)

    def _is_worth_it(self, first: int, last: int, start: int, common: int) -> bool:
        """Whether these rows share the tokens from ``start`` to ``common``.

        Without that node, rows that have as much again in common would still share it.
        """
        parts = self._parts(first, last, 2 * common - start - 1)
        saved = (len(parts) - 1) * (common - start)
        if self.least_saved == 0:
            return saved > 0
        below = sum(self._below(begin, end, common) for begin, end in parts)
        return saved >= self.least_saved + below * _GOING_ON

    def _below(self, first: int, last: int, above: int) -> int:
        """Tokens after ``above`` of rows that share what all of them have in common, no more."""
        common = self._common(first, last)
        return common - above + sum(self._length(place) - common for place in range(first, last))

    def _common(self, first: int, last: int) -> int:
        return min(self.alike[first + 1 : last], default=self._length(first))

    def _parts(self, first: int, last: int, common: int) -> list[tuple[int, int]]:
        """Stretches of rows that have more than ``common`` tokens in common, or are equal."""
        cuts = [
            place
            for place in range(first + 1, last)
            if self.alike[place] < min(common + 1, self._length(place))
        ]
        return list(pairwise([first, *cuts, last]))

    def _length(self, place: int) -> int:
        return self.lengths[self.order[place]]


def _in_order(nodes: list[Node]) -> list[Node]:
    for node in nodes:
        _in_order(node.children)
    nodes.sort(key=lambda node: node.rows[0])
    return nodes


def _alike(a: bytes, b: bytes) -> int:
    """The length of the common beginning of ``a`` and ``b``, found by bisection."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def microbatches(lengths: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Indices of rows, longest first, in lists whose rows x longest row fit ``token_budget``.

    Every row is in exactly one list; a row that is too long by itself gets its own. Sorting by
    length keeps padding small, and as the longest come first, memory runs out at once or never.

    >>> microbatches([3, 9, 4, 2], token_budget=9)
    [[1], [2, 0], [3]]
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
        """The rows that end at a node, one by one."""
        going_on = {row for child in node.children for row in child.rows}
        return [self._piece([row], 0) for row in node.rows if row not in going_on]

    def _piece(self, rows: list[int], tokens: int) -> _Piece:
        return _Piece(tokens, sum(self.lengths[row] for row in rows), rows)

    def _fits(self, piece: _Piece) -> bool:
        return max(piece.tokens, piece.scored) <= self.budget


def _check(token_budget: int) -> None:
    if token_budget < 1:
        raise SettingsError(f"token_budget must be at least 1, got {token_budget}")
