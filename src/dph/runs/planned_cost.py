"""Expected cost of a consolidation, from a small one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dph.runs.evaluate.consensus import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallConsolidation:
    """Measurements of a small consolidation."""

    groups: Sequence[Answered]
    answers: int
    tokens: int
    untimed: tuple[int, int]
    """Answers and tokens that were drawn in addition."""
    store_seconds: float
    update_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """Expected cost of the whole consolidation, without its evaluation."""

    prompts: int
    answers: int
    tokens: int
    tokens_per_second: float
    """Drawn, stored and compared."""
    store_seconds: float
    updates: int
    seconds_per_update: float
    minutes: float
    """Of the store and the updates."""


def planned_cost(
    small: SmallConsolidation, *, prompts: int, answers: int, updates: int, rows: int
) -> PlannedCost:
    """The cost of ``prompts`` x ``answers`` and of ``updates``, from that of a small consolidation.

    Computed as: an answer takes as long, and has as many tokens, as one of the small store; an
    update as long as the small one's, stretched where that learnt from fewer rows.
    """
    wanted = prompts * answers
    drawing = small.store_seconds / small.answers * wanted
    whole = answers * math.ceil(rows / answers)  # whole prompts, until there are so many rows
    update = small.update_seconds * min(whole, wanted) / min(whole, small.answers)
    return PlannedCost(
        prompts=prompts,
        answers=wanted,
        tokens=round(small.tokens / small.answers * wanted),
        tokens_per_second=small.tokens / small.store_seconds,
        store_seconds=drawing,
        updates=updates,
        seconds_per_update=update,
        minutes=(drawing + updates * update) / 60,
    )
