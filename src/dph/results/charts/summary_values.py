"""One number of a set's summary (evaluation.json, or one that was made of several seeds)."""

from collections.abc import Mapping
from typing import Any

from dph.errors import SettingsError

PLAIN = ("greedy", "mean", "keep", "explore", "effective_styles")
_TITLES = {"mean": "mean@1", "effective_styles": "effective styles"}


def value_of(summary: Mapping[str, Any], metric: str) -> float | None:
    """The metric's value, a fraction (effective styles: their number); None if it is unknown.

    Raises:
        SettingsError: there is no such metric.

    >>> value_of({"pass_at_k": {"8": 0.5}, "greedy": None}, "pass_at_8")
    0.5
    """
    if metric in PLAIN:
        found = summary.get(metric)
    elif metric.startswith("pass_at_"):
        found = summary["pass_at_k"].get(metric.removeprefix("pass_at_"))
    else:
        raise SettingsError(f"no metric {metric!r}; there is {', '.join(PLAIN)}, pass_at_<k>")
    return None if found is None else float(found)


def interval_of(summary: Mapping[str, Any], metric: str) -> tuple[float, float] | None:
    """The 95% interval of the metric; None where the summary has none."""
    found = summary["ci95"].get(metric)
    return None if found is None else (float(found[0]), float(found[1]))


def error_bars(summary: Mapping[str, Any], metric: str) -> tuple[list[float], list[float]]:
    """The lengths of the interval below and above the value, for ``errorbar``; 0 without one.

    >>> error_bars({"greedy": 0.5, "ci95": {"greedy": [0.25, 1.0]}}, "greedy")
    ([0.25], [0.5])
    """
    value, interval = value_of(summary, metric), interval_of(summary, metric)
    if value is None or interval is None:
        return [0.0], [0.0]
    return [max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]


def metric_title(metric: str) -> str:
    """What people call a metric.

    >>> metric_title("pass_at_8"), metric_title("mean")
    ('Pass@8', 'mean@1')
    """
    if metric.startswith("pass_at_"):
        return f"Pass@{metric.removeprefix('pass_at_')}"
    return _TITLES.get(metric, metric)
