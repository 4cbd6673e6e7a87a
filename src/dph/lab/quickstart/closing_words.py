"""Closing words of a quickstart: the results on its seed, and those of tables over seeds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dph._base.files import read_json
from dph.errors import DataError
from dph.results.charts.aggregate import metric_title, value_of
from dph.results.charts.palette import BASE, chosen_ks, method_label, set_label
from dph.results.charts.tables import cost_words

# What tables over seeds say of the quickstart's worlds: ``over_seeds.json`` beside this file.
#
# ``benchmarks/over_seeds.py`` makes it from a study's report and from docs/first-edition.md.

SCHEMA = 1
FILE = Path(__file__).with_name("over_seeds.json")


class MeanOverSeeds(NamedTuple):
    """A mean over seeds and half of its 95% t-interval: per cent, or a number of styles."""

    mean: float
    half: float

    def __str__(self) -> str:
        """As the table has it."""
        return f"{self.mean:.1f} ± {self.half:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSeeds:
    """A world's table: ``methods`` by label, set and metric (greedy, pass@16, styles)."""

    page: str
    seeds: int
    methods: Mapping[str, Mapping[str, Mapping[str, MeanOverSeeds]]]


def read_over_seeds(world: str, path: Path = FILE) -> OverSeeds | None:
    """The table of a world (``sql-1``: task and edition); None where there is none yet.

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
            name: {metric: MeanOverSeeds(*values) for metric, values in of_set.items()}
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
    if costs := summary.get("cost"):  # a summary of schema 2 has none
        lines.append("Cost of all stages; shared stages count in full for each method:")
        lines += [f"  {method_label(name)}: {cost_words(costs[name])}." for name in methods]
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
    lines.append("One seed is one draw of many; where they differ, trust the table.")
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
