"""What a consolidation is expected to take, from what a small one took."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dph.evaluation.consensus import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallConsolidation:
    """A small consolidation as it was measured."""

    groups: Sequence[Answered]
    answers: int
    tokens: int
    untimed: tuple[int, int]
    """Answers and tokens that were drawn beside them."""
    store_seconds: float
    update_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """What the whole consolidation is expected to take; its evaluation is no part of it."""

    prompts: int
    answers: int
    tokens: int
    tokens_per_second: float
    """Drawn, stored and compared."""
    updates: int
    seconds_per_update: float
    minutes: float


def planned_cost(
    small: SmallConsolidation, *, prompts: int, answers: int, updates: int, rows: int
) -> PlannedCost:
    """The cost of ``prompts`` x ``answers`` and of ``updates``, from that of a small consolidation.

    Computed as: tokens at the rate of the small store, and updates as long as the small one's,
    stretched where the small store holds fewer rows than an update learns from.
    """
    tokens = small.tokens / small.answers * prompts * answers
    rate = small.tokens / small.store_seconds
    whole = answers * math.ceil(rows / answers)  # whole prompts, until there are so many rows
    learnt = min(whole, prompts * answers) / min(whole, small.answers)
    update = small.update_seconds * learnt
    return PlannedCost(
        prompts=prompts,
        answers=prompts * answers,
        tokens=round(tokens),
        tokens_per_second=rate,
        updates=updates,
        seconds_per_update=update,
        minutes=(tokens / rate + updates * update) / 60,
    )
