"""Rows as one packed sequence, in which what they share (prompts, schemas, turns) stands once.

Rows that begin with the same tokens have the same hidden states there in every layer of a causal
model, so what they share needs to be computed only once. A node of the tree of rows holds the
tokens that all rows passing through it have.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.model.prompts import common_length

Ids = Sequence[int]

LEAST_SAVED = 16
"""Tokens that sharing a node must save, in addition to what the tokens below it pay for it."""
_CONTINUING = 1 / 32
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
        return self.end - self.start

    @property
    def tokens(self) -> int:
        """Tokens of the node and of all below it: what a forward computes."""
        return self.length + sum(child.tokens for child in self.children)

    @property
    def stems(self) -> int:
        """Nodes, of this one and all below it, that have continuations."""
        return bool(self.children) + sum(child.stems for child in self.children)


def fed(prompts: Sequence[Ids], completions: Sequence[Ids]) -> list[list[int]]:
    """Input of the model: rows without their last token, which predicts nothing."""
    return [[*p, *c[:-1]] for p, c in zip(prompts, completions, strict=True)]


def prefix_forest(rows: Sequence[Ids], *, least_saved: int = LEAST_SAVED) -> list[Node]:
    """The trees of ``rows``, in the order of their first rows.

    Rows share a node if that saves at least ``least_saved`` tokens, and more than it costs the
    tokens below; otherwise each row repeats those tokens. With ``least_saved`` 0, rows share
    everything that they have in common. Equal rows count as one row.

    >>> (tree,) = prefix_forest([[1, 2, 3], [1, 2], [1, 2, 4, 5]], least_saved=0)
    >>> tree.length, [(child.rows, child.length) for child in tree.children], tree.tokens
    (2, [([0], 1), ([2], 2)], 5)
    """
    keys = [array("i", row) for row in rows]
    bytes_of = [key.tobytes() for key in keys]
    order = sorted(range(len(rows)), key=bytes_of.__getitem__)
    alike = [0, *(common_length(keys[a], keys[b]) for a, b in pairwise(order))]
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
        """True if these rows share the tokens from ``start`` to ``common``.

        Without that node, rows that have as much again in common would still share it.
        """
        parts = self._parts(first, last, 2 * common - start - 1)
        saved = (len(parts) - 1) * (common - start)
        if self.least_saved == 0:
            return saved > 0
        below = 0  # tokens of the parts if each shares what all of it has in common, no more
        for begin, end in parts:
            shared = self._common(begin, end)
            below += shared - common
            below += sum(self._length(place) - shared for place in range(begin, end))
        return saved >= self.least_saved + below * _CONTINUING

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


def microbatches(lengths: Sequence[int], *, token_budget: int) -> list[list[int]]:
    """Indices of rows, longest first, in lists whose rows x longest row fit ``token_budget``.

    Every row is in exactly one list; a row that is too long by itself gets its own. Sorting by
    length keeps padding small, and as the longest come first, memory runs out at once or never.

    >>> microbatches([3, 9, 4, 2], token_budget=9)
    [[1], [2, 0], [3]]
    """
    if token_budget < 1:
        raise SettingsError(f"token_budget must be at least 1, got {token_budget}")
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * longest > token_budget:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches


class Microbatch(NamedTuple):
    """Rows of one forward pass."""

    rows: list[int]
    forest: Sequence[Node] | None
    """The trees of the rows, numbered in their order; None if they run padded."""

    @property
    def packed(self) -> bool:
        """True if the rows run as one packed sequence."""
        return self.forest is not None

    @property
    def sharing(self) -> Literal["always", "never"]:
        """The setting that makes ``completion_scores`` do as planned."""
        return "always" if self.packed else "never"


def packed_microbatches(
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    *,
    token_budget: int,
    forest: Sequence[Node] | None = None,
) -> list[Microbatch]:
    """Rows in batches whose packed tokens fit ``token_budget``, with similar rows together.

    Every row is in exactly one batch. Rows of one tree (`prefix_forest`) are in one batch, unless
    they are too many: then what they share is repeated in each of the batches that they fill. As
    many completion tokens at most are scored. The largest batches come first, or nearly.
    ``forest`` are the trees of all rows, if the caller has built them already.

    >>> prompts, completions = [[1] * 40] * 3 + [[2]], [[3, 4], [5, 6], [7, 8], [9]]
    >>> [batch.rows for batch in packed_microbatches(prompts, completions, token_budget=42)]
    [[0, 1], [2, 3]]
    """
    cutting = _Cutting([len(completion) for completion in completions], token_budget)
    rows = fed(prompts, completions)
    roots = prefix_forest(rows) if forest is None else forest
    pieces = [p for root in roots for p in cutting.pieces(root, above=0)]
    return [
        batch
        for piece in cutting.first_fit(pieces, above=0)
        for batch in _recounted(piece.rows, rows, token_budget)
    ]


def _recounted(batch: list[int], rows: Sequence[Sequence[int]], budget: int) -> list[Microbatch]:
    """A batch, halved where it is too large: few rows may not share what many would."""
    forest = prefix_forest([rows[row] for row in batch])
    if sum(root.tokens for root in forest) <= budget or len(batch) == 1:
        return [Microbatch(batch, forest)]
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
        continued = {row for child in node.children for row in child.rows}
        loose = [self._piece([row], 0) for row in node.rows if row not in continued]
        cut: list[_Piece] = []
        for child in node.children:
            below = self._piece(child.rows, child.tokens)
            if self._fits(self._piece(child.rows, path + child.tokens)):
                loose.append(below)
            else:
                cut += self.pieces(child, above=path)
        return cut + self.first_fit(loose, above=path)

    def first_fit(self, pieces: Sequence[_Piece], *, above: int) -> list[_Piece]:
        """The pieces, largest first, each joined to the first piece with room for it."""
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

    def _piece(self, rows: list[int], tokens: int) -> _Piece:
        return _Piece(tokens, sum(self.lengths[row] for row in rows), rows)

    def _fits(self, piece: _Piece) -> bool:
        return max(piece.tokens, piece.scored) <= self.budget


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring tokens of the packed sequence."""

    start: int
    length: int


def tokens_of_spans(spans: Sequence[Span]) -> NDArray[np.int64]:
    """Positions of the tokens of the spans, one span after the other."""
    starts = np.array([span.start for span in spans], dtype=np.int64)
    lengths = np.array([span.length for span in spans], dtype=np.int64)
    before = lengths.cumsum() - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


@dataclass(frozen=True, slots=True)
class Branches:
    """Continuations of a stem: ``tokens`` covers all of it, including branches of branches."""

    stem: Span
    tokens: Span


@dataclass(frozen=True, slots=True)
class Scored:
    """The tokens of completions that are scored, row by row."""

    sources: Int[Tensor, "scored"]
    """Tokens whose hidden states predict them."""
    targets: Int[Tensor, "scored"]
    mask: Bool[Tensor, "rows longest"]
    lengths: tuple[int, ...]
    """Of each row."""


@dataclass(frozen=True, slots=True)
class PackedRows(Scored):
    """One sequence without padding: the nodes of the rows' prefix trees.

    The children of a node come one after the other, followed by what continues each of them. The
    last token of a row is left out, because it predicts nothing.
    """

    ids: Int[Tensor, "tokens"]
    positions: Int[Tensor, "tokens"]
    """Of each token in the rows it belongs to."""
    sequences: tuple[Span, ...]
    """The nodes: within each, a token sees itself and those before it."""
    levels: tuple[tuple[Branches, ...], ...]
    """Branches also see all of their stem. No two branches of one level share a token."""
    longest: int
    """Tokens that the last token of the longest row attends to."""


def check_rows(prompts: Sequence[Ids], completions: Sequence[Ids]) -> None:
    """Refuse rows that cannot be scored."""
    if len(prompts) != len(completions) or not prompts:
        raise DataError(
            "need one prompt for each completion and at least one, got "
            f"{len(prompts)} prompts and {len(completions)} completions"
        )
    if not all(map(len, prompts)):
        row = [bool(len(ids)) for ids in prompts].index(False)
        raise DataError(f"row {row} has an empty prompt")


def scored_tables(
    predicting: Sequence[Span],
    completions: Sequence[Ids],
    written: Sequence[Sequence[bool] | None] | None,
) -> tuple[list[NDArray[Any]], tuple[int, ...]]:
    """The tables of `Scored` for the tokens that the model wrote, and their lengths.

    ``predicting`` are the places before all tokens of the completions.
    """
    sources = tokens_of_spans(predicting)
    if written is not None and any(row is not None for row in written):
        flags = [
            [True] * len(ids) if row is None else row
            for ids, row in zip(completions, written, strict=True)
        ]
        if [len(row) for row in flags] != [len(ids) for ids in completions]:
            raise DataError("a row that says who wrote its tokens says it of every token")
        sources = sources[np.fromiter(chain.from_iterable(flags), np.bool_)]
        completions = [[*compress(ids, row)] for ids, row in zip(completions, flags, strict=True)]
    lengths = tuple(map(len, completions))
    targets = np.fromiter(chain.from_iterable(completions), np.int64, sum(lengths))
    return [sources, targets, np.arange(max(lengths)) < np.array(lengths)[:, None]], lengths


def pack(
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    *,
    device: torch.device,
    least_saved: int = LEAST_SAVED,
    forest: Sequence[Node] | None = None,
    written: Sequence[Sequence[bool] | None] | None = None,
) -> PackedRows:
    """Lay rows out. ``least_saved`` decides what they share (see `prefix_forest`).

    ``forest`` are the trees of these rows, if the caller has built them already.

    Computed as: tables of the host that go to the device in one copy.
    """
    check_rows(prompts, completions)
    rows = fed(prompts, completions)
    layout = _Layout([[] for _ in rows])
    layout.append(prefix_forest(rows, least_saved=least_saved) if forest is None else forest)
    predicting = [
        span
        for row, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
        for span in layout.places(row, len(prompt) - 1, len(prompt) - 1 + len(completion))
    ]
    scored, lengths = scored_tables(predicting, completions, written)
    tokens = chain.from_iterable(rows[n.rows[0]][n.start : n.end] for n in layout.nodes)
    positions = tokens_of_spans([Span(node.start, node.length) for node in layout.nodes])
    tables = [*scored, np.fromiter(tokens, np.int64), positions]
    sources, targets, mask, ids, in_rows = to_device(tables, device)
    return PackedRows(
        sources=sources,
        targets=targets,
        mask=mask,
        lengths=lengths,
        ids=ids,
        positions=in_rows,
        sequences=tuple(layout.sequences),
        levels=tuple(map(tuple, layout.levels)),
        longest=max(node.end for node in layout.nodes),
    )


@dataclass(slots=True)
class _Layout:
    """The packed sequence while it grows; ``paths`` are each row's nodes and where they stand."""

    paths: list[list[tuple[Node, Span]]]
    nodes: list[Node] = field(default_factory=list)
    sequences: list[Span] = field(default_factory=list)
    levels: list[list[Branches]] = field(default_factory=list)
    tokens: int = 0

    def append(self, nodes: Sequence[Node], level: int = 0) -> None:
        """Nodes one after the other, then the continuations of each of them."""
        stems = []
        for node in nodes:
            stems.append(Span(self.tokens, node.length))
            self.tokens += node.length
            for row in node.rows:
                self.paths[row].append((node, stems[-1]))
        self.nodes += nodes
        self.sequences += stems
        if any(node.children for node in nodes) and level == len(self.levels):
            self.levels.append([])
        for node, stem in zip(nodes, stems, strict=True):
            if node.children:
                begin = self.tokens
                self.append(node.children, level + 1)
                branches = Span(begin, self.tokens - begin)
                self.levels[level].append(Branches(stem, branches))

    def places(self, row: int, first: int, last: int) -> Iterator[Span]:
        """Spans of the tokens ``first`` to ``last`` of a row."""
        for node, span in self.paths[row]:
            begin, end = max(first, node.start), min(last, node.end)
            if begin < end:
                yield Span(span.start + begin - node.start, end - begin)


def to_device(tables: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Each table as a tensor on ``device``, in its own dtype.

    Computed as: on CUDA, one block of pinned memory, whose copy the host does not wait for (torch
    keeps the block until the copy is done); the tensors are views of it.
    """
    if device.type != "cuda":
        return [torch.tensor(table, device=device) for table in tables]
    ends = [*accumulate((-(-table.nbytes // 8) * 8 for table in tables), initial=0)]
    block = np.empty(ends[-1], dtype=np.uint8)
    for table, start in zip(tables, ends, strict=False):
        block[start : start + table.nbytes] = np.ascontiguousarray(table).reshape(-1).view(np.uint8)
    copied = torch.from_numpy(block).pin_memory().to(device, non_blocking=True)
    found = []
    for table, start in zip(tables, ends, strict=False):
        dtype = torch.from_numpy(np.empty(0, table.dtype)).dtype
        found.append(
            copied[start : start + table.nbytes].view(dtype).view(table.shape)
            if table.size
            else torch.empty(table.shape, dtype=dtype, device=device)
        )
    return found
