"""Rows as one packed sequence, in which what they share stands once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from dph.errors import DataError
from dph.model.forward.prefix_tree import LEAST_SAVED, Ids, Node, fed, prefix_forest
from dph.model.forward.transfer import to_device


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring tokens of the packed sequence."""

    start: int
    length: int


def tokens_of_spans(spans: Sequence[Span]) -> NDArray[np.int64]:
    """Positions of the tokens of some spans, one span after the other."""
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

    ``forest`` are the trees of these rows, where the caller has built them already.

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
