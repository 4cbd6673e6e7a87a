"""Attention of prompts that are run, over themselves and over what other prompts have run."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dph.model.sampler.torch.shared_cache import attend_causally
from dph.model.sampler.torch.prompt_prefixes import PrefillPart
from dph.model.sampler.torch.waves import WIDTH_STEP


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
    """Where the run tokens stand among the queries of all groups."""
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
