"""The comparison table of a quickstart."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dph.cli.evaluation_text import number, percent
from dph.cli.meter import duration
from dph.cli.table import text_table

COLUMNS = ("greedy", "mean", "pass@8", "pass@16", "styles")


def quickstart_text(summary: Mapping[str, Any], out: Path) -> str:
    """One table a set, one row a model, from ``summary.json``'s content."""
    models = {"base": summary["base"], **summary["methods"]}
    parts = [
        _set_table(set_name, {name: model["sets"] for name, model in models.items()})
        for set_name in summary["base"]["sets"]
    ]
    took = duration(summary["seconds"]["total"])
    return "\n\n".join([*parts, f"seed {summary['seed']}, {took}; all of it is in {out}"])


def _set_table(set_name: str, sets: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(name, *_cells(content[set_name])) for name, content in sets.items()]
    return f"{set_name} (per cent [95% interval])\n" + text_table(("", *COLUMNS), rows)


def _cells(content: Mapping[str, Any]) -> list[str]:
    intervals, at_k = content["ci95"], content["pass_at_k"]
    return [
        percent(content["greedy"], intervals.get("greedy")),
        percent(content["mean"], intervals.get("mean")),
        percent(at_k.get("8"), intervals.get("pass_at_8")),
        percent(at_k.get("16"), intervals.get("pass_at_16")),
        number(content.get("effective_styles")),
    ]
