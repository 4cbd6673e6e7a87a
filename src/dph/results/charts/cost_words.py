"""What a run cost as people read it."""

from collections.abc import Mapping, Sequence
from typing import Any

from dph.results.charts.cells import duration
from dph.runs.stage_costs import RunCost


def cost_document(cost: RunCost) -> dict[str, Any]:
    """``answers``, ``tokens`` and ``seconds`` of all stages, and the stages ``not_timed``."""
    return {
        "answers": cost.answers,
        "tokens": cost.tokens,
        "seconds": cost.seconds,
        "not_timed": cost.untimed,
    }


def cost_words(cost: Mapping[str, Any]) -> str:
    """A sentence's part of a ``cost_document``; empty where nothing is known.

    >>> cost_words({"answers": 1504, "tokens": None, "seconds": 70, "not_timed": ["store broad"]})
    '1,504 answers, 1 min 10 s (without the time of store broad)'
    """
    untimed: Sequence[str] = cost["not_timed"]
    seconds = cost["seconds"]
    parts = [f"{cost[what]:,} {what}" for what in ("answers", "tokens") if cost[what] is not None]
    if seconds is not None:
        short = f" (without the time of {', '.join(untimed)})" if untimed else ""
        parts.append(f"{duration(seconds)}{short}")
    return ", ".join(parts)
