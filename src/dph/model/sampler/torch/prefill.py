"""Prefill: the prompts of a wave through the packed rows of the training forward.

What prompts begin with alike is run once (`dph.model.forward.packing`), and not at all where the
cache of another wave, or of a part before, has it: that is borrowed as one more stem, whose keys
and values stand behind those of the tokens that are run.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dph.errors import ModelError
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import Branches, PackedRows, Span, pack
from dph.model.forward.prefix_tree import (
    LEAST_SAVED,
    Node,
    packed_microbatches,
    prefix_forest,
    tokens_of,
)
from dph.model.sampler.base import common_length


class Lender(Protocol):
    """A cache that others may borrow the beginnings of prompts from."""

    @property
    def prompts(self) -> Sequence[tuple[int, ...]]:
        """The prompts whose keys and values it has, by their places."""
        ...

    def lent(
        self, layer: int, prompt: int, tokens: int
    ) -> tuple[Float[Tensor, "tokens kv_heads key"], Float[Tensor, "tokens kv_heads value"]]:
        """Keys and values of the first ``tokens`` of a prompt."""
        ...


class Loan(NamedTuple):
    """The first ``tokens`` of a prompt whose keys and values another part or wave has kept."""

    lender: Lender
    prompt: int
    tokens: int


@dataclass(frozen=True, slots=True)
class PrefillPart:
    """Prompts of one forward."""

    places: list[int]
    """Of the prompts in their wave."""
    lengths: list[int]
    rows: PackedRows
    """The tokens that are run; every one of them is a source, prompt by prompt."""
    loans: list[Loan]
    borrowers: dict[int, int]
    """For each prompt that borrows, which loan."""

    @property
    def starts(self) -> list[int]:
        """Number of tokens of each prompt that are borrowed."""
        whose = (self.borrowers.get(prompt) for prompt in range(len(self.places)))
        return [0 if loan is None else self.loans[loan].tokens for loan in whose]

    @property
    def last(self) -> Int[Tensor, "prompts"]:
        """The run token that ends each prompt."""
        own = [length - start for length, start in zip(self.lengths, self.starts, strict=True)]
        ends = torch.tensor([*accumulate(own)]) - 1
        return self.rows.sources.index_select(0, ends.to(self.rows.sources.device))

    def tokens(self, width: int | None = None) -> Int[Tensor, "tokens"]:
        """Of all prompts' tokens, one prompt after the other, the place among run and borrowed.

        With ``width`` every prompt takes as many places; what is behind its end is any token.
        """
        run = self.rows.sources.shape[0]
        begins = [*accumulate((loan.tokens for loan in self.loans), initial=run)]
        order, own = [], 0
        for prompt, (length, start) in enumerate(zip(self.lengths, self.starts, strict=True)):
            if start:
                order.append(begins[self.borrowers[prompt]] + np.arange(start))
            order.append(own + np.arange(length - start))
            if width is not None:
                order.append(np.zeros(width - length, dtype=np.int64))
            own += length - start
        device, count = self.rows.ids.device, len(self.rows.ids)
        known = self.rows.sources
        if self.loans:
            lent = torch.arange(count, count + begins[-1] - run, device=device)
            known = torch.cat([known, lent])
        return known.index_select(0, torch.from_numpy(np.concatenate(order)).to(device))


def prefill_parts(
    prompts: Sequence[tuple[int, ...]],
    cache: Lender,
    living: Sequence[Lender],
    *,
    device: torch.device,
    most_tokens: int,
    least_saved: int = LEAST_SAVED,
) -> Iterator[PrefillPart]:
    """The prompts of a wave in parts that run at most ``most_tokens`` tokens, or one prompt.

    A part may borrow from ``cache``, where the parts before it were kept, and from the caches of
    ``living`` waves. Of every prompt at least the last token is run, for its logits. A beginning is
    shared or borrowed where that saves ``least_saved`` tokens (see `prefix_forest`).
    """
    forest = prefix_forest(prompts, least_saved=least_saved)
    batches = [(list(range(len(prompts))), forest)]
    if tokens_of(forest) > most_tokens:
        nothing = [(0,)] * len(prompts)  # no token after a prompt is run
        batches = [*packed_microbatches(prompts, nothing, token_budget=most_tokens)]
    known = _known(living, (range(len(lender.prompts)) for lender in living))
    lenders = [*living, cache]
    for places, trees in batches:
        yield _part(prompts, places, trees, known, lenders, device=device, least=least_saved)
        known = sorted([*known, *((prompts[place], len(living), place) for place in places)])


_Known = list[tuple[tuple[int, ...], int, int]]
"""Prompts in order, each with the number of its lender and its place there."""


def _known(lenders: Sequence[Lender], places: Iterator[Sequence[int]]) -> _Known:
    return sorted(
        (lender.prompts[place], number, place)
        for number, (lender, kept) in enumerate(zip(lenders, places, strict=True))
        for place in kept
    )


def _part(
    prompts: Sequence[tuple[int, ...]],
    places: list[int],
    trees: Sequence[Node],
    known: _Known,
    lenders: Sequence[Lender],
    *,
    device: torch.device,
    least: int,
) -> PrefillPart:
    mine = [prompts[place] for place in places]
    loans: list[Loan] = []
    borrowers: dict[int, int] = {}
    roots = []
    for root in trees:
        # A token of the root is run, so that what goes on from it has a stem of its own.
        loan = _loan(mine[root.rows[0]][: root.end - 1], known, lenders)
        if loan is not None and loan.tokens >= max(least, 1):
            borrowers |= dict.fromkeys(root.rows, len(loans))
            loans.append(loan)
            root = replace(root, start=loan.tokens)
        roots.append(root)
    rows = pack(
        [ids[:1] for ids in mine],  # every other token is one to predict, so that all are sources
        [(*ids[1:], 0) for ids in mine],
        device=device,
        forest=roots,
    )
    borrowed = _borrowed(rows, roots, loans, borrowers)
    return PrefillPart(
        places=places,
        lengths=list(map(len, mine)),
        rows=replace(rows, levels=(*rows.levels, borrowed)) if borrowed else rows,
        loans=loans,
        borrowers=borrowers,
    )


def _borrowed(
    rows: PackedRows, roots: Sequence[Node], loans: Sequence[Loan], borrowers: dict[int, int]
) -> tuple[Branches, ...]:
    """Everything in the trees that borrow sees the whole of what they borrow."""
    ends = [*accumulate((loan.tokens for loan in loans), initial=len(rows.ids))]
    below = {some.stem: some.tokens for some in rows.levels[0]} if rows.levels else {}
    found, begin = [], 0
    for root in roots:
        span, begin = Span(begin, root.length), begin + root.length
        loan = borrowers.get(root.rows[0])
        if loan is not None:
            stem = Span(ends[loan], loans[loan].tokens)
            found += [
                Branches(stem, span),
                *(Branches(stem, below[s]) for s in [span] if s in below),
            ]
    return tuple(found)


def _loan(ids: tuple[int, ...], known: _Known, lenders: Sequence[Lender]) -> Loan | None:
    """The prompt with the longest common prefix: one of the two neighbours in sorted order."""
    at = bisect(known, (ids,))
    best: Loan | None = None
    for other, number, place in known[max(at - 1, 0) : at + 1]:
        tokens = common_length(other, ids)
        if best is None or tokens > best.tokens:
            best = Loan(lenders[number], place, tokens)
    return best


Keep = Callable[[int, Float[Tensor, "tokens heads key"], Float[Tensor, "tokens heads value"]], None]
"""Called with a layer, and the keys and values of all tokens of a part, run and borrowed."""


class PrefillAttention:
    """Attention of one part; an `Attend` for every layer, which hands over what it sees."""

    def __init__(self, part: PrefillPart, keep: Keep) -> None:
        self.loans, self.keep = part.loans, keep
        self.packed = PackedAttention(part.rows)

    def __call__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> Tensor:
        """The mixed values of all tokens that are run."""
        layer = layer_of(module)
        lent = [loan.lender.lent(layer, loan.prompt, loan.tokens) for loan in self.loans]
        # Autocast leaves rotated queries and keys in float32; attention is the values' dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)
        if lent:
            key, value = (
                torch.cat([own, *(x.transpose(0, 1)[None] for x in others)], dim=2)
                for own, others in zip((key, value), zip(*lent, strict=True), strict=True)
            )
        self.keep(layer, key[0].transpose(0, 1), value[0].transpose(0, 1))
        return self.packed(module, query, key, value, **options)


def layer_of(module: nn.Module) -> int:
    """The number of the layer that an attention module belongs to.

    Raises:
        ModelError: it does not say.
    """
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise ModelError(f"{type(module).__name__} does not say which layer it belongs to")
    return int(layer)
