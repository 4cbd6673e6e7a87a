"""An evaluation as a table: one row a set."""

from collections.abc import Mapping
from typing import Any

from dph.cli.table import text_table


def evaluation_text(evaluation: Mapping[str, Any]) -> str:
    """The content of ``evaluation.json`` for people, in per cent."""
    sets = evaluation["sets"]
    ks = sorted({int(k) for content in sets.values() for k in content["pass_at_k"]})
    header = ("set", "problems", "greedy", "mean", *(f"pass@{k}" for k in ks))
    header += ("keep (null)", "explore (null)", "styles")
    rows = [(name, *_cells(content, ks)) for name, content in sets.items()]
    return (
        f"{evaluation['model']}, {evaluation['samples']} samples a problem; per cent, "
        f"[95% interval]\n{text_table(header, rows)}"
    )


def _cells(content: Mapping[str, Any], ks: list[int]) -> list[str]:
    intervals = content["ci95"]
    return [
        str(content["problems"]),
        percent(content["greedy"], intervals.get("greedy")),
        percent(content["mean"], intervals.get("mean")),
        *(percent(content["pass_at_k"].get(str(k)), intervals.get(f"pass_at_{k}")) for k in ks),
        f"{percent(content.get('keep'))} ({percent(content.get('keep_null'))})",
        f"{percent(content.get('explore'))} ({percent(content.get('explore_null'))})",
        number(content.get("effective_styles")),
    ]


def percent(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """A share in per cent, with its interval if there is one.

    >>> percent(0.694, (0.6, 0.75)), percent(None)
    ('69.4 [60, 75]', '-')
    """
    if value is None:
        return "-"
    low_high = f" [{100 * interval[0]:.0f}, {100 * interval[1]:.0f}]" if interval else ""
    return f"{100 * value:.1f}{low_high}"


def number(value: float | None) -> str:
    """One decimal, or a dash."""
    return "-" if value is None else f"{value:.1f}"
