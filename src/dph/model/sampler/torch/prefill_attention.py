"""Attention of prompts that are run, over themselves and over what other prompts have run."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.model.sampler.base import common_length
from dph.model.sampler.torch.shared_cache import SharedCache, attend_causally
from dph.model.sampler.torch.waves import WIDTH_STEP, padded_width

# Which tokens of a wave's prompts are run, where prompts begin alike (schemas, templates).
#
# Prompts that begin with the same tokens have the same keys and values there. In sorted order
# every prompt runs only what it does not have in common with the one before it, or with a prompt
# of a wave that is still decoded. Keys and values are then put together for each prompt, so that
# decoding reads them as if each had been run by itself, with the same sums to the bit
# (`PrefillAttention`).


class Loan(NamedTuple):
    """The first ``tokens`` of a prompt whose keys and values another part or wave has kept."""

    cache: SharedCache
    prompt: int
    tokens: int


@dataclass(slots=True)
class PrefillPart:
    """Prompts of one forward; ``sources`` of ``[run tokens, borrowed tokens]`` make up each."""

    places: list[int] = field(default_factory=list)
    """Of the prompts in their wave."""
    starts: list[int] = field(default_factory=list)
    """Number of tokens of each prompt that are not run."""
    ends: list[int] = field(default_factory=list)
    """The prompts' lengths."""
    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    loans: list[Loan] = field(default_factory=list)
    _sources: list[list[int]] = field(default_factory=list)
    """Tokens that are run from 0 on, borrowed ones from -1 on downwards."""

    @property
    def run(self) -> int:
        """Tokens that are run."""
        return len(self.ids)

    def add(self, place: int, prompt: tuple[int, ...], start: int, *, loan: Loan | None) -> None:
        """Run a prompt from ``start`` on: the rest is borrowed, or that of the prompt before."""
        before = list(self._sources[-1][:start]) if start and loan is None else []
        if loan is not None:
            first = sum(other.tokens for other in self.loans)
            before = [-1 - first - i for i in range(start)]
            self.loans.append(loan)
        self._sources.append([*before, *range(self.run, self.run + len(prompt) - start)])
        self.places.append(place)
        self.starts.append(start)
        self.ends.append(len(prompt))
        self.ids += prompt[start:]
        self.positions += range(start, len(prompt))

    def sources(self, device: torch.device) -> Int[Tensor, "prompts width"]:
        """Source of every column of every prompt; 0 behind its end."""
        width = padded_width(max(self.ends))
        table = torch.tensor([row + [0] * (width - len(row)) for row in self._sources])
        return torch.where(table < 0, self.run - 1 - table, table).to(device)


def prefill_parts(
    prompts: Sequence[tuple[int, ...]],
    cache: SharedCache,
    living: Sequence[SharedCache],
    *,
    least_shared: int,
    most_tokens: int,
) -> Iterator[PrefillPart]:
    """The prompts of a wave in parts that run at most ``most_tokens`` tokens, or one prompt.

    A part may borrow from ``cache``, where the parts before it were kept, and from the caches of
    ``living`` waves. Fewer than ``least_shared`` tokens are run again; of every prompt at least
    the last token is run, for its logits.
    """
    known = sorted(
        (ids, number, place)
        for number, other in enumerate(living)
        for place, ids in enumerate(other.prompts)
    )
    part, before = PrefillPart(), -1
    for place in sorted(range(len(prompts)), key=prompts.__getitem__):
        ids = prompts[place]
        beside = common_length(prompts[before], ids) if before >= 0 else 0
        loan = _loan(ids, known, living)
        start, lent = beside, None
        if loan is not None and loan.tokens > beside:
            start, lent = loan.tokens, loan
        start = _worth(start, ids, least_shared)
        if part.places and part.run + len(ids) - start > most_tokens:
            yield part
            part = PrefillPart()
            if start and lent is None:
                lent = Loan(cache, before, start)
        lent = None if lent is None or not start else lent._replace(tokens=start)
        part.add(place, ids, start, loan=lent)
        before = place
    yield part


def _worth(common: int, ids: tuple[int, ...], least_shared: int) -> int:
    start = min(common, len(ids) - 1)
    return start if start >= least_shared else 0


def _loan(
    ids: tuple[int, ...],
    known: Sequence[tuple[tuple[int, ...], int, int]],
    lenders: Sequence[SharedCache],
) -> Loan | None:
    """The prompt with the longest common prefix: one of the two neighbours in sorted order."""
    at = bisect(known, (ids,))
    best: Loan | None = None
    for other, number, place in known[max(at - 1, 0) : at + 1]:
        tokens = common_length(other, ids)
        if best is None or tokens > best.tokens:
            best = Loan(lenders[number], place, tokens)
    return best


class _Group(NamedTuple):
    """Prompts of a part whose queries begin at one column."""

    prompts: Int[Tensor, "group"]
    first: int
    queries: Int[Tensor, "places"]
    """Run tokens, prompt by prompt; any token where the query is not wanted."""


class PrefillAttention:
    """Attention of one part: every query sees the whole of its prompt up to itself.

    Computed as: keys and values of whole prompts, padded to one width; queries from the multiple of
    64 columns on at which a prompt's own tokens begin. So a token's sums are those that it has
    where its prompt is run by itself.
    """

    def __init__(self, part: PrefillPart, device: torch.device) -> None:
        self.loans = part.loans
        self.places = torch.tensor(part.places, device=device)
        sources = part.sources(device)
        self.shape = tuple(sources.shape)
        flat = sources.flatten()
        whole = not self.loans and torch.equal(flat, torch.arange(part.run, device=device))
        self._sources = None if whole else flat
        runs = torch.tensor([e - s for s, e in zip(part.starts, part.ends, strict=True)])
        self.last = (runs.cumsum(0) - 1).to(device)
        firsts = [start // WIDTH_STEP * WIDTH_STEP for start in part.starts]
        self._groups = [_group(sources, firsts, first, part.run) for first in sorted(set(firsts))]
        self._taken = None if whole else _taken(part, firsts, self.shape[1]).to(device)

    def whole_prompts(
        self,
        layer: int,
        key: Float[Tensor, "run kv_heads key"],
        value: Float[Tensor, "run kv_heads value"],
    ) -> tuple[
        Float[Tensor, "prompts kv_heads width key"], Float[Tensor, "prompts kv_heads width value"]
    ]:
        """Keys and values of the prompts, with what they borrow."""
        lent = [loan.cache.lent(layer, loan.prompt, loan.tokens) for loan in self.loans]
        tables = []
        for own, borrowed in ((key, [k for k, _ in lent]), (value, [v for _, v in lent])):
            known = torch.cat([own, *borrowed]) if borrowed else own
            if self._sources is not None:
                known = known.index_select(0, self._sources)
            tables.append(known.reshape(*self.shape, *own.shape[1:]).transpose(1, 2))
        return tables[0], tables[1]

    def __call__(
        self,
        query: Float[Tensor, "run heads key"],
        keys: Float[Tensor, "prompts kv_heads width key"],
        values: Float[Tensor, "prompts kv_heads width value"],
        *,
        scaling: float,
        softcap: float | None,
    ) -> Float[Tensor, "run heads value"]:
        """The mixed values of all tokens that are run."""
        found = []
        for group in self._groups:
            wanted = query if self._sources is None else query.index_select(0, group.queries)
            wanted = wanted.reshape(len(group.prompts), -1, *query.shape[1:]).transpose(1, 2)
            some, other = keys, values
            if len(self._groups) > 1:
                some, other = (x.index_select(0, group.prompts) for x in (keys, values))
            out = attend_causally(wanted, some, other, scaling=scaling, softcap=softcap)
            found.append(out.transpose(1, 2).flatten(0, 1))
        mixed = torch.cat(found) if len(found) > 1 else found[0]
        return mixed if self._taken is None else mixed.index_select(0, self._taken)


def _group(
    sources: Int[Tensor, "prompts width"], firsts: list[int], first: int, run: int
) -> _Group:
    prompts = torch.tensor([i for i, begin in enumerate(firsts) if begin == first])
    prompts = prompts.to(sources.device)
    queries = sources.index_select(0, prompts)[:, first:].flatten()
    return _Group(prompts, first, torch.where(queries < run, queries, 0))


def _taken(part: PrefillPart, firsts: list[int], width: int) -> Int[Tensor, "run"]:
    """Positions of the run tokens among the queries of all groups."""
    offsets, used = {}, 0
    for first in sorted(set(firsts)):
        for prompt in (i for i, begin in enumerate(firsts) if begin == first):
            offsets[prompt] = used - first
            used += width - first
    return torch.cat(
        [
            torch.arange(offsets[prompt] + start, offsets[prompt] + end)
            for prompt, (start, end) in enumerate(zip(part.starts, part.ends, strict=True))
        ]
    )
