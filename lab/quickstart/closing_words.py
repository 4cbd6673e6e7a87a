"""Closing words of a quickstart: the results on its seed, and those of tables over seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json
from dph.errors import DataError
from dph.results.charts.tables import cost_words
from dph.results.over_seeds import SeedMean
from dph.results.vocabulary import (
    BASE,
    chosen_ks,
    method_label,
    metric_title,
    set_label,
    value_of,
)

# What tables over seeds say of the quickstart's worlds: ``over_seeds.json`` beside this file.
#
# ``lab/benchmarks/over_seeds.py`` makes it from a study's report.

SCHEMA = 1
FILE = Path(__file__).with_name("over_seeds.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSeeds:
    """A world's table: ``methods`` by label, set and metric (greedy, pass@16, styles).

    In per cent, styles as their number.
    """

    page: str
    seeds: int
    methods: Mapping[str, Mapping[str, Mapping[str, SeedMean]]]


def read_over_seeds(world: str, path: Path = FILE) -> OverSeeds | None:
    """The table of a world (``sql-2``: task and edition); None where there is none yet.

    Raises:
        DataError: the file has another schema.
    """
    document = read_json(path)
    if document.get("schema") != SCHEMA:
        raise DataError(f"{path} has the schema {document.get('schema')}, not {SCHEMA}")
    found = document["worlds"].get(world)
    if found is None:
        return None
    methods = {
        label: {
            name: {
                metric: SeedMean(mean, half, found["seeds"])
                for metric, (mean, half) in of_set.items()
            }
            for name, of_set in sets.items()
        }
        for label, sets in found["methods"].items()
    }
    return OverSeeds(page=found["page"], seeds=found["seeds"], methods=methods)


_SETS = ("in_domain", "cross_domain")


def closing_words(summary: Mapping[str, Any], table: OverSeeds | None) -> list[str]:
    """Sentences with numbers and nothing that was not measured.

    ``summary`` is ``summary.json``; ``table`` None says that there is no table of its world yet.
    """
    methods = list(summary["methods"])
    lines = [f"Seen on seed {summary['seed']}, base model to trained model:"]
    lines += [f"  {method_label(name)}: {_seen(summary, name)}." for name in methods]
    lines.append("Cost of all stages; shared stages count in full for each method:")
    lines += [f"  {method_label(name)}: {cost_words(summary['cost'][name])}." for name in methods]
    if table is None:
        lines.append(
            "There is no table over seeds of this world yet; one seed is only an illustration."
        )
        return lines
    known = [name for name in (BASE, *methods) if name in table.methods]
    lines.append(f"Over {table.seeds} seeds ({table.page}), mean ± half of the 95% interval:")
    lines += [f"  {method_label(name)}: {_measured(table, name)}." for name in known]
    missing = [method_label(name) for name in methods if name not in table.methods]
    if missing:
        lines.append(f"The table has no {', no '.join(missing)}.")
    lines.append("One seed is one draw of many; if it differs from the table, trust the table.")
    return lines


def _seen(summary: Mapping[str, Any], method: str) -> str:
    before, after = summary["base"]["sets"], summary["methods"][method]["sets"]
    parts = []
    for name in _SETS:
        if name in before and name in after:
            changes = _changes(before[name], after[name])
            parts.append(f"{set_label(name)} {', '.join(changes)}")
    return "; ".join(parts) or "evaluated on other sets"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    many = f"pass_at_{chosen_ks(before['pass_at_k'])[-1]}"
    for metric in ("greedy", many, "effective_styles"):
        old, new = value_of(before, metric), value_of(after, metric)
        if old is not None and new is not None:
            scale = 1 if metric == "effective_styles" else 100
            name = "styles" if metric == "effective_styles" else metric_title(metric)
            yield f"{name} {scale * old:.1f} to {scale * new:.1f}"


def _measured(table: OverSeeds, label: str) -> str:
    parts = []
    for name, metrics in table.methods[label].items():
        numbers = (f"{metric.replace('pass', 'Pass')} {found}" for metric, found in metrics.items())
        parts.append(f"{set_label(name)} {', '.join(numbers)}")
    return "; ".join(parts)
