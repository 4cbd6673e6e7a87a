"""Rows that share prompts as one packed sequence, in which every prompt stands once."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dph.errors import DataError

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring tokens of the packed sequence."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Branches:
    """Completions that continue the same stem: ``tokens`` covers all of them."""

    stem: Span
    tokens: Span


@dataclass(frozen=True, slots=True)
class PackedRows:
    """One sequence without padding: every stem, then the branches of every shared stem.

    A stem is a prompt, or a whole row whose prompt no other row has. A branch is a completion
    of a shared prompt, without its last token, which predicts nothing.
    """

    ids: Int[Tensor, "tokens"]
    positions: Int[Tensor, "tokens"]
    """Of each token in the row it belongs to: a branch goes on where its stem ends."""
    sequences: tuple[Span, ...]
    """Stems and branches: within each, a token sees itself and those before it."""
    shared: tuple[Branches, ...]
    sources: Int[Tensor, "scored"]
    """Tokens whose hidden states predict the completion tokens, row by row."""
    targets: Int[Tensor, "scored"]
    mask: Bool[Tensor, "rows longest"]

    @property
    def longest(self) -> int:
        """Tokens that the last token of the longest row attends to."""
        return int(self.positions.max()) + 1


def rows_by_prompt(prompts: Sequence[Ids]) -> list[list[int]]:
    """Indices of the rows of each distinct prompt, in order of first appearance."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        groups.setdefault(tuple(prompt), []).append(row)
    return list(groups.values())


def packed_tokens(prompt: int, completions: Sequence[int]) -> int:
    """Tokens of the packed sequence that rows of one prompt take, by their lengths.

    >>> packed_tokens(10, [4, 1, 0])
    13
    """
    return prompt + sum(max(length - 1, 0) for length in completions)


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


def pack(prompts: Sequence[Ids], completions: Sequence[Ids], *, device: torch.device) -> PackedRows:
    """Lay rows out.

    Raises:
        DataError: a prompt is empty, or there are not as many prompts as completions.
    """
    check_rows(prompts, completions)
    groups = rows_by_prompt(prompts)
    packer = _Packer()
    stems: list[Span] = []
    for rows in groups:
        alone = completions[rows[0]][:-1] if len(rows) == 1 else ()
        stems.append(packer.append([*prompts[rows[0]], *alone], first_position=0))
    shared: list[Branches] = []
    before_first = [0] * len(prompts)  # the token that predicts a row's first completion token
    first = [0] * len(prompts)
    for stem, rows in zip(stems, groups, strict=True):
        end = stem.start + len(prompts[rows[0]])
        begin = packer.tokens
        for row in rows:
            before_first[row] = end - 1
            first[row] = end if len(rows) == 1 else packer.tokens
            if len(rows) > 1:
                packer.append(completions[row][:-1], first_position=stem.length)
        if packer.tokens > begin:
            shared.append(Branches(stem, Span(begin, packer.tokens - begin)))
    return _packed(packer, tuple(shared), completions, before_first, first, device)


class _Packer:
    """The packed sequence while it grows."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.sequences: list[Span] = []

    @property
    def tokens(self) -> int:
        return len(self.ids)

    def append(self, ids: Ids, *, first_position: int) -> Span:
        span = Span(len(self.ids), len(ids))
        self.ids.extend(ids)
        self.positions.extend(range(first_position, first_position + len(ids)))
        if ids:
            self.sequences.append(span)
        return span


def _packed(
    packer: _Packer,
    shared: tuple[Branches, ...],
    completions: Sequence[Ids],
    before_first: Sequence[int],
    first: Sequence[int],
    device: torch.device,
) -> PackedRows:
    counts = torch.tensor([len(completion) for completion in completions])
    columns = torch.arange(int(counts.max()))
    mask = columns < counts[:, None]
    sources = torch.tensor(first)[:, None] + columns - 1
    sources[:, :1] = torch.tensor(before_first)[:, None]
    targets = torch.tensor([token for completion in completions for token in completion])
    return PackedRows(
        ids=torch.tensor(packer.ids, device=device),
        positions=torch.tensor(packer.positions, device=device),
        sequences=tuple(packer.sequences),
        shared=shared,
        sources=sources[mask].to(device),
        targets=targets.long().to(device),
        mask=mask.to(device),
    )
