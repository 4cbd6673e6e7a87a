"""Prefill: the prompts of a wave through the packed rows of the training forward.

What prompts begin with alike is run once (`dph.model.forward.packing`), and not at all if the
cache of another wave, or of an earlier part, has it: that is borrowed as one more stem, whose keys
and values stand behind those of the tokens that are run.
"""

from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from dph.errors import ModelError
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import (
    LEAST_SAVED,
    Branches,
    Microbatch,
    Node,
    PackedRows,
    Span,
    pack,
    packed_microbatches,
    prefix_forest,
    to_device,
)
from dph.model.prompts import common_length

PREFILL_TOKENS = 8192
"""Prompt tokens that one forward runs; a longer prompt has one of its own."""


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
    """Places of the prompts in their wave."""
    rows: PackedRows
    """The tokens that are run; every one of them is a source, prompt by prompt."""
    loans: list[Loan]
    known: Int[Tensor, "known"]
    """Places of the sources, then of what is borrowed, among the keys of a layer."""
    prompts: list[NDArray[np.int64]]
    """For each prompt, its tokens as numbers of ``known``."""

    @property
    def last(self) -> Int[Tensor, "prompts"]:
        """The run token that ends each prompt."""
        return self._of(np.array([prompt[-1] for prompt in self.prompts]))

    def tokens(self, width: int | None = None) -> Int[Tensor, "tokens"]:
        """The place of every token of every prompt among the keys of a layer.

        With ``width`` every prompt takes as many places; what is behind its end is any token.
        """
        padded = [p if width is None else np.pad(p, (0, width - len(p))) for p in self.prompts]
        return self._of(np.concatenate(padded))

    def _of(self, numbers: NDArray[np.int64]) -> Tensor:
        (index,) = to_device([numbers], self.known.device)
        return self.known.index_select(0, index)


def prefilled(
    run: Callable[[PrefillPart], Float[Tensor, "some vocabulary"]],
    prompts: Sequence[tuple[int, ...]],
    cache: Lender,
    living: Sequence[Lender],
    *,
    device: torch.device,
    most_tokens: int,
    least_saved: int,
) -> Float[Tensor, "prompts vocabulary"]:
    """``run`` every part of the prompts (`prefill_parts`), which keeps it in ``cache``.

    Returns the logits behind each prompt, in the order of the prompts.
    """
    places: list[int] = []
    logits = []
    for part in prefill_parts(
        prompts, cache, living, device=device, most_tokens=most_tokens, least_saved=least_saved
    ):
        places += part.places
        logits.append(run(part))
    (order,) = to_device([np.argsort(places)], device)
    return torch.cat(logits).index_select(0, order)


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
    shared or borrowed if that saves ``least_saved`` tokens (see `prefix_forest`).
    """
    forest = prefix_forest(prompts, least_saved=least_saved)
    batches = [Microbatch(list(range(len(prompts))), forest)]
    if sum(root.tokens for root in forest) > most_tokens:
        nothing = [(0,)] * len(prompts)  # no token after a prompt is run
        batches = packed_microbatches(prompts, nothing, token_budget=most_tokens)
    there = (Loan(lender, at, 0) for lender in living for at in range(len(lender.prompts)))
    known = sorted(((loan.lender.prompts[loan.prompt], loan) for loan in there), key=itemgetter(0))
    for places, trees in batches:
        mine = [prompts[place] for place in places]
        yield _part(mine, places, trees or (), known, device=device, least=max(least_saved, 1))
        known += zip(mine, (Loan(cache, place, 0) for place in places), strict=True)
        known.sort(key=itemgetter(0))


_Known = list[tuple[tuple[int, ...], Loan]]
"""Prompts in order, and where they are."""


def _part(
    prompts: Sequence[tuple[int, ...]],
    places: list[int],
    trees: Sequence[Node],
    known: _Known,
    *,
    device: torch.device,
    least: int,
) -> PrefillPart:
    loans: list[Loan] = []
    roots: list[Node] = []
    borrowed: dict[int, int] = {}
    for root in trees:
        # A token of the root is run, so that its continuations have their own stem.
        loan = _loan(prompts[root.rows[0]][: root.end - 1], known)
        if loan is not None and loan.tokens >= least:
            borrowed |= dict.fromkeys(root.rows, len(loans))
            loans.append(loan)
            root = replace(root, start=loan.tokens)
        roots.append(root)
    rows = pack(
        [ids[:1] for ids in prompts],  # every other token is one to predict: all are sources
        [(*ids[1:], 0) for ids in prompts],
        device=device,
        forest=roots,
    )
    run, lent = len(rows.ids), [*accumulate((loan.tokens for loan in loans), initial=0)]
    stems = [Span(run + begin, loan.tokens) for begin, loan in zip(lent, loans, strict=False)]
    numbers, sources = [], len(rows.sources)
    own = 0
    for prompt, ids in enumerate(prompts):
        at = borrowed.get(prompt)
        start = 0 if at is None else loans[at].tokens
        first = np.arange(start) + (0 if at is None else sources + lent[at])
        numbers.append(np.concatenate([first, np.arange(own, own + len(ids) - start)]))
        own += len(ids) - start
    level = tuple(_borrowed(rows, roots, stems, borrowed))
    return PrefillPart(
        places=places,
        rows=replace(rows, levels=(*rows.levels, level)) if level else rows,
        loans=loans,
        known=torch.cat([rows.sources, torch.arange(run, run + lent[-1], device=device)]),
        prompts=numbers,
    )


def _borrowed(
    rows: PackedRows, roots: Sequence[Node], stems: Sequence[Span], borrowed: Mapping[int, int]
) -> Iterator[Branches]:
    """Everything in the trees that borrow sees the whole of what they borrow."""
    below = {some.stem: some.tokens for some in rows.levels[0]} if rows.levels else {}
    begin = 0
    for root in roots:
        span, begin = Span(begin, root.length), begin + root.length
        if root.start:
            stem = stems[borrowed[root.rows[0]]]
            yield Branches(stem, span)
            if span in below:
                yield Branches(stem, below[span])


def _loan(ids: tuple[int, ...], known: _Known) -> Loan | None:
    """The longest common prefix, which one of the two neighbours in order has."""
    at = bisect(known, ids, key=itemgetter(0))
    near = known[max(at - 1, 0) : at + 1]
    loans = [loan._replace(tokens=common_length(other, ids)) for other, loan in near]
    return max(loans, key=attrgetter("tokens"), default=None)


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
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise ModelError(f"{type(module).__name__} does not say which layer it belongs to")
    return int(layer)
