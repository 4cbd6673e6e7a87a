"""The tree of what rows have in common: prompts, schemas, turns, the beginnings of answers.

Rows that begin with the same tokens have the same hidden states there in every layer of a causal
model, so what they share needs to be computed only once. A node holds the tokens that all rows
passing through it have.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Ids = Sequence[int]

LEAST_SAVED = 16
"""Tokens that sharing a node has to save, beside what the tokens below it pay for it."""
_GOING_ON = 1 / 32
"""Time of attending to one more node over that of computing a token (benchmarks/prefixes.py)."""
_DEEPEST = 32
"""Shared nodes above one another: for what lies below, each is one more part of its attention."""
_ALL = 2**31


@dataclass(slots=True)
class Node:
    """The tokens from ``start`` to ``end`` of ``rows``, and the nodes that go on from there."""

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
        """Nodes, of this one and all below it, that others go on from."""
        return bool(self.children) + sum(child.stems for child in self.children)


def tokens_of(nodes: Sequence[Node]) -> int:
    """Tokens of nodes and of all below them: what a forward computes."""
    return sum(node.tokens for node in nodes)


def fed(prompts: Sequence[Ids], completions: Sequence[Ids]) -> list[list[int]]:
    """What the model is given: rows without their last token, which predicts nothing."""
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
    """How many tokens each has in common with the one before it."""
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
