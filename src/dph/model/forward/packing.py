"""Rows as one packed sequence, in which what they share stands once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dph.errors import DataError
from dph.model.forward.prefix_tree import LEAST_SAVED, Ids, Node, fed, prefix_forest


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring tokens of the packed sequence."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Branches:
    """Continuations of a stem: ``tokens`` covers all of it, including branches of branches."""

    stem: Span
    tokens: Span


@dataclass(frozen=True, slots=True)
class PackedRows:
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
    sources: Int[Tensor, "scored"]
    """Tokens whose hidden states predict the completion tokens, row by row."""
    targets: Int[Tensor, "scored"]
    mask: Bool[Tensor, "rows longest"]

    @property
    def longest(self) -> int:
        """Tokens that the last token of the longest row attends to."""
        return int(self.positions.max()) + 1


def check_rows(prompts: Sequence[Ids], completions: Sequence[Ids]) -> None:
    """Refuse rows that cannot be scored.

    Raises:
        DataError: a prompt is empty, or there are not as many prompts as completions.
    """
    if len(prompts) != len(completions) or not prompts:
        raise DataError(
            "need one prompt for each completion and at least one, got "
            f"{len(prompts)} prompts and {len(completions)} completions"
        )
    if not all(map(len, prompts)):
        row = [bool(len(ids)) for ids in prompts].index(False)
        raise DataError(f"row {row} has an empty prompt")


def pack(
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    *,
    device: torch.device,
    least_saved: int = LEAST_SAVED,
    forest: Sequence[Node] | None = None,
) -> PackedRows:
    """Lay rows out. ``least_saved`` decides what they share (see `prefix_forest`).

    ``forest`` are the trees of these rows, where the caller has built them already.

    Raises:
        DataError: a prompt is empty, or there are not as many prompts as completions.
    """
    check_rows(prompts, completions)
    rows = fed(prompts, completions)
    layout = _Layout(rows, [[] for _ in rows])
    layout.append(prefix_forest(rows, least_saved=least_saved) if forest is None else forest)
    counts = torch.tensor([len(completion) for completion in completions])
    targets = torch.tensor([token for completion in completions for token in completion])
    sources = [
        place
        for row, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
        for place in layout.places(row, len(prompt) - 1, len(prompt) - 1 + len(completion))
    ]
    return PackedRows(
        ids=torch.tensor(layout.ids, device=device),
        positions=torch.tensor(layout.positions, device=device),
        sequences=tuple(layout.sequences),
        levels=tuple(map(tuple, layout.levels)),
        sources=torch.tensor(sources, dtype=torch.long, device=device),
        targets=targets.long().to(device),
        mask=(torch.arange(int(counts.max())) < counts[:, None]).to(device),
    )


@dataclass(slots=True)
class _Layout:
    """The packed sequence while it grows; ``paths`` are each row's nodes and where they stand."""

    rows: list[list[int]]
    paths: list[list[tuple[Node, Span]]]
    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    sequences: list[Span] = field(default_factory=list)
    levels: list[list[Branches]] = field(default_factory=list)

    def append(self, nodes: Sequence[Node], level: int = 0) -> None:
        """Nodes one after the other, then the continuations of each of them."""
        stems = [self._append(node) for node in nodes]
        if any(node.children for node in nodes) and level == len(self.levels):
            self.levels.append([])
        for node, stem in zip(nodes, stems, strict=True):
            if node.children:
                begin = len(self.ids)
                self.append(node.children, level + 1)
                branches = Span(begin, len(self.ids) - begin)
                self.levels[level].append(Branches(stem, branches))

    def _append(self, node: Node) -> Span:
        span = Span(len(self.ids), node.length)
        self.ids += self.rows[node.rows[0]][node.start : node.end]
        self.positions += range(node.start, node.end)
        self.sequences.append(span)
        for row in node.rows:
            self.paths[row].append((node, span))
        return span

    def places(self, row: int, first: int, last: int) -> list[int]:
        """Positions of the tokens ``first`` to ``last`` of a row."""
        found: list[int] = []
        for node, span in self.paths[row]:
            begin, end = max(first, node.start), min(last, node.end)
            found += range(span.start + begin - node.start, span.start + end - node.start)
        return found
