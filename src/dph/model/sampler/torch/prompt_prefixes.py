"""Which tokens of a wave's prompts are run, where prompts begin alike (schemas, templates).

Prompts that begin with the same tokens have the same keys and values there. In sorted order every
prompt runs only what it does not have in common with the one before it, or with a prompt of a wave
that is still decoded. Keys and values are then put together for each prompt, so that decoding
reads them as if each had been run by itself, with the same sums to the bit (`PrefillAttention`).
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from dph.model.sampler.base import common_length
from dph.model.sampler.torch.shared_cache import SharedCache
from dph.model.sampler.torch.waves import padded_width


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
    """How many tokens of each prompt are not run."""
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
        """Where every column of every prompt is found; 0 behind its end."""
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
    """What begins most like a prompt: one of its two neighbours in sorted order."""
    at = bisect(known, (ids,))
    best: Loan | None = None
    for other, number, place in known[max(at - 1, 0) : at + 1]:
        tokens = common_length(other, ids)
        if best is None or tokens > best.tokens:
            best = Loan(lenders[number], place, tokens)
    return best
