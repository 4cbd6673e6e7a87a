"""Interface of a sampler: prompts in, completions out, independent of the order of the batch."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

from dph.errors import SettingsError
from dph.model.prompts import common_length
from dph.records import Completion

LEAST_SHARED = 16
"""Prompts that begin with fewer tokens alike run them each, as in the training forward."""


def families(prompts: Iterable[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Distinct prompts in sorted order, cut where less than half of two neighbours is alike.

    Questions on one schema are a family; prompts that have a template in common need not be.

    >>> schema = (1,) * 16
    >>> [len(family) for family in families([(*schema, 2), (*schema, 3), (4, 5)])] == [2, 1]
    True
    """
    found: list[list[tuple[int, ...]]] = []
    for before, prompt in pairwise([(), *sorted(set(prompts))]):
        alike = common_length(before, prompt)
        if alike < LEAST_SHARED or 2 * alike < max(len(before), len(prompt)):
            found.append([])
        found[-1].append(prompt)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParameters:
    """Parameters for drawing a completion.

    ``greedy`` takes the most likely token and ignores ``top_p``; log-probs are still those at
    ``temperature``. ``stop_token_ids`` end a completion and are part of it.
    """

    max_tokens: int
    stop_token_ids: tuple[int, ...]
    temperature: float = 1.0
    top_p: float = 1.0
    greedy: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise SettingsError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not self.temperature > 0:
            raise SettingsError(
                f"temperature must be above 0, got {self.temperature}; use greedy for the limit"
            )
        if not 0 < self.top_p <= 1:
            raise SettingsError(f"top_p must lie in (0, 1], got {self.top_p}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """Draw the samples ``first_index`` ... ``first_index + samples - 1`` of one problem.

    The random numbers of a sample depend only on (seed, problem_id, sample index), so asking
    for samples 0-7 and then 8-15 gives the same sixteen as asking once.
    """

    problem_id: str
    prompt_ids: tuple[int, ...]
    samples: int
    first_index: int = 0


@runtime_checkable
class Sampler(Protocol):
    """Draws completions from a model and hands each of them over as it finishes."""

    def sample(
        self,
        requests: Sequence[SampleRequest],
        parameters: SamplingParameters,
        *,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
        on_completion: Callable[[int, Completion], None] | None = None,
    ) -> list[list[Completion]]:
        """Completions of each request, in the order of requests and sample indices.

        Args:
            requests: what to draw.
            parameters: how to draw it.
            seed: with a problem's id and a sample's index it decides that sample.
            on_progress: called with the number of completions finished since the last call.
            on_completion: called in this thread, once for every completion and in any order, with
                the position of its request. A completion that is handed over before all are drawn
                is graded while the others still are.
        """
        ...
