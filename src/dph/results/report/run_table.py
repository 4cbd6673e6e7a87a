"""The table of runs: a line a run, and a line for the seeds of a method; scores, cost, settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dph._base.files import read_json
from dph.errors import DataError
from dph.recipe.section import flat
from dph.results.charts.text_table import duration, with_code_points
from dph.results.over_seeds import mean_over_seeds
from dph.results.report.report_data import ReportData, ReportRun, SeedGroup
from dph.results.vocabulary import method_label, metric_title, set_label, table_ks, where_of
from dph.runs.directory import RunDirectory, read_software
from dph.runs.evaluate.comparison import ComparisonRow
from dph.runs.stage_costs import RunCost, run_cost

Kind = Literal["percent", "number", "count", "duration", "text"]
MOST_SHOWN = 12
"""Columns of a table that nobody has chosen any for."""
_NOT_SHOWN = frozenset({"name", "method", "seed", "notes"})
"""Settings that are columns already, or names of places."""


class TableCell(NamedTuple):
    """A value with its 95% interval, and its difference to the baseline with its own.

    Fractions, seconds, counts or texts, as the column says; None: not known. ``detail`` says more.
    """

    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    detail: str | None = None

    def packed(self) -> list[Any] | None:
        """For the page's scripts: what is missing at the end is left out."""
        cells = [round(one, 6) if isinstance(one, float) else one for one in self]
        while cells and cells[-1] is None:
            cells.pop()
        return cells or None


UNKNOWN = TableCell()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column under the heading ``group``, cells by line; ``word`` names what its "?" explains."""

    key: str
    title: str
    group: str
    kind: Kind
    cells: Mapping[str, TableCell]
    word: str


def run_table(data: ReportData) -> dict[str, Any]:
    """The table for the page's scripts: cells in the order of the lines, all texts visible.

    ``shown`` are the keys of the columns shown at first, ``about`` says of each group what it was
    measured on, ``against`` what differences are to.
    """
    columns = [one for one in table_columns(data) if one.cells]
    lines = [
        {"key": run.key, "path": _place_of(run.path), "runs": [run.key], "is_base": run.is_base}
        for run in data.runs
    ]
    lines += [
        {"key": group.key, "path": "", "runs": list(group.runs), "is_base": False}
        for group in data.groups
    ]
    about = {}
    for name, rows in data.comparison.items():
        of = data.run(rows[0].run).scores[name]
        text = f"{len(of.problem_ids)} problems, {of.samples} samples each"
        about[with_code_points(set_label(name))] = text
    return {
        "lines": [
            line | {"label": with_code_points(label)}
            for line, (label, _) in zip(lines, data.drawn.values(), strict=True)
        ],
        "columns": [
            {
                "key": one.key,
                "title": with_code_points(one.title),
                "group": with_code_points(one.group),
                "kind": one.kind,
                "word": one.word,
                "values": [one.cells.get(key, UNKNOWN).packed() for key in data.drawn],
            }
            for one in columns
        ],
        "shown": _shown([one.key for one in columns], list(data.comparison)),
        "about": about,
        "against": with_code_points(_against(data)),
    }


def table_columns(data: ReportData) -> list[TableColumn]:
    """All columns; one that is known of no line has no cells."""
    scores = [column for name in data.comparison for column in _score_columns(data, name)]
    settings = []
    for key, of_runs in differing_settings(data.runs).items():
        values = {run: TableCell(with_code_points(text)) for run, text in of_runs.items()}
        heading = ("settings that differ", key)
        settings.append(_column(data, f"setting/{key}", heading, "text", values))
    return [*scores, *_cost_columns(data), *_facts(data), *settings]


def _shown(keys: Sequence[str], sets: Sequence[str]) -> list[str]:
    """First try, the largest Pass@k and the problems lost of every set that has room, then cost."""
    last = [key for key in ("cost/seconds", "cost/tokens") if key in keys]
    room, taken = MOST_SHOWN - len(last), set[str]()
    for metric in ("pass_at_", "greedy", "lost"):
        of_sets = ([key for key in keys if key.startswith(f"{name}/{metric}")] for name in sets)
        taken |= set([found[-1] for found in of_sets if found][: max(0, room - len(taken))])
    return [*(key for key in keys if key in taken), *last]


def _against(data: ReportData) -> str:
    """The run that differences are to; where sets differ in it, the run of each."""
    first = {name: rows[0].run for name, rows in data.comparison.items()}
    labels = {name: data.run(key).label for name, key in first.items()}
    if len(data.runs) < 2 or not labels:
        return ""
    if len(set(first.values())) == 1:
        return next(iter(labels.values()))
    return ", ".join(f"{label} {where_of(name)}" for name, label in labels.items())


def _score_columns(data: ReportData, name: str) -> Iterator[TableColumn]:
    rows = data.comparison[name]
    samples = min(data.run(row.run).scores[name].samples for row in rows)
    titles = {"greedy": "first try", "mean": f"mean@{samples}"}
    titles |= {f"pass_at_{k}": metric_title(f"pass_at_{k}") for k in table_ks(samples)}
    group = set_label(name)
    for metric, title in titles.items():
        values = {row.run: _compared(row) for row in rows if row.metric == metric}
        word = "pass_at_k" if metric.startswith("pass_at_") else metric
        yield _column(data, f"{name}/{metric}", (group, title), "percent", values, word)
    sets = {run.key: (run.evaluation or {}).get("sets", {}).get(name, {}) for run in data.runs}
    for metric, (title, kind) in _EVALUATED.items():
        values = {}
        for key, summary in sets.items():
            null, again = summary.get(f"{metric}_null"), None
            if null is not None:
                again = f"a second draw of the initial policy: {100 * null:.1f}"
            values[key] = TableCell(summary.get(metric), detail=again)
        yield _column(data, f"{name}/{metric}", (group, title), kind, values, metric)
    for change in ("lost", "gained"):
        values = {
            key: TableCell(float(document["sets"][name]["counts"][change]))
            for key, document in data.diagnoses.items()
            if name in document["sets"]
        }
        title = f"clearly {change}"
        yield _column(data, f"{name}/{change}", (group, title), "count", values, change)


def _compared(row: ComparisonRow) -> TableCell:
    apart = row.difference
    if apart is None:
        return TableCell(row.value, row.lo, row.hi)
    return TableCell(row.value, row.lo, row.hi, apart.mean, apart.lo, apart.hi)


_EVALUATED: Mapping[str, tuple[str, Kind]] = {
    "effective_styles": ("styles", "number"),
    "keep": ("keep", "percent"),
    "explore": ("explore", "percent"),
    "cut_off": ("cut off", "percent"),
}
"""Title and kind of what is taken from evaluation.json."""


def _column(
    data: ReportData,
    key: str,
    heading: tuple[str, str],
    kind: Kind,
    cells: Mapping[str, TableCell],
    word: str = "",
) -> TableColumn:
    """A column; the lines of seeds have means if it has a ``word``, else texts."""
    over = {
        group.key: _over_seeds(group, cells, kind) if word else _joined(group, cells)
        for group in data.groups
    }
    every = {**cells, **over}
    if all(cell.value in (None, "") for cell in every.values()):
        every = {}
    group, title = heading
    return TableColumn(key=key, group=group, title=title, kind=kind, cells=every, word=word)


_BOUNDS = {"percent": (0.0, 1.0), "number": (1.0, inf)}
"""Of means; counts and seconds are not negative."""


def _over_seeds(group: SeedGroup, cells: Mapping[str, TableCell], kind: Kind) -> TableCell:
    """The mean of the seeds' values and of their differences, with t-intervals over seeds."""
    of = [cells.get(key, UNKNOWN) for key in group.runs]
    known = [one.value for one in of if isinstance(one.value, int | float)]
    if len(known) < len(of):
        return UNKNOWN
    mean = mean_over_seeds(known)
    low, high = mean.interval(_BOUNDS.get(kind, (0.0, inf))) or (None, None)
    apart = [one.difference for one in of if one.difference is not None]
    if len(apart) < len(of):
        return TableCell(mean.mean, low, high)
    difference = mean_over_seeds(apart)
    ends = difference.interval() or (None, None)
    return TableCell(mean.mean, low, high, difference.mean, *ends)


def _joined(group: SeedGroup, cells: Mapping[str, TableCell]) -> TableCell:
    """The value of seeds that all have it; else all of them, as a text."""
    of = list(dict.fromkeys(cells[key].value for key in group.runs if key in cells))
    texts = (str(one) for one in of if one is not None)
    return TableCell(of[0] if len(of) == 1 else ", ".join(texts))


def _cost_columns(data: ReportData) -> Iterator[TableColumn]:
    costs = {run.key: run_cost(run.path, run.recipe) for run in data.runs}
    kinds: dict[str, tuple[str, Kind]] = {
        "seconds": ("time", "duration"),
        "tokens": ("tokens drawn", "count"),
        "answers": ("answers drawn", "count"),
    }
    for what, (title, kind) in kinds.items():
        values = {
            key: TableCell(getattr(cost, what) or None, detail=_by_stage(cost, what) or None)
            for key, cost in costs.items()
        }
        yield _column(data, f"cost/{what}", ("cost, all stages", title), kind, values, "cost")


def _by_stage(cost: RunCost, what: str) -> str:
    stages = [(one.stage, getattr(one, what)) for one in cost.stages]
    if len(stages) < 2:
        return ""
    if what == "seconds":
        told = [f"{name} {'not timed' if v is None else duration(v)}" for name, v in stages]
    else:
        told = [f"{name} {v:,}" for name, v in stages if v]
    return ", ".join(told)


def _facts(data: ReportData) -> Iterator[TableColumn]:
    facts: dict[str, dict[str, Any]] = {}
    for run in data.runs:
        recipe, evaluation = run.recipe, run.evaluation or {}
        found = {
            "method": method_label(recipe.method) if recipe else None,
            "seed": recipe.seed if recipe else None,
            "steps": max((int(row["step"]) for row in run.log), default=None),
            "samples per problem": evaluation.get("samples"),
            "graded by": _verifiers(run),
            "trained by": _software(run),
            "model": str(recipe.model.path) if recipe else evaluation.get("model"),
            "directory": _place_of(run.path),
        }
        visible = {k: with_code_points(v) for k, v in found.items() if isinstance(v, str)}
        facts[run.key] = found | visible
    for title in next(iter(facts.values()), {}):
        values = {key: TableCell(of[title]) for key, of in facts.items()}
        kind: Kind = "count" if title in ("seed", "steps", "samples per problem") else "text"
        yield _column(data, f"run/{title.replace(' ', '_')}", ("run", title), kind, values)


def _place_of(path: Path) -> str:
    """The path from the working directory on, if it is inside it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path)


def differing_settings(runs: Sequence[ReportRun]) -> dict[str, dict[str, str]]:
    """Each setting that is not the same in all runs with a recipe: key, then run, then value."""
    tables = {
        run.key: dict(flat(run.recipe.model_dump(mode="json", exclude_none=True)))
        for run in runs
        if run.recipe is not None
    }
    keys = dict.fromkeys(key for settings in tables.values() for key in settings)
    values = {k: {run: str(of.get(k, "not set")) for run, of in tables.items()} for k in keys}
    return {
        key: of_runs
        for key, of_runs in values.items()
        if len(set(of_runs.values())) > 1 and key not in _NOT_SHOWN
    }


def _verifiers(run: ReportRun) -> str:
    """Verifiers that gave the rewards, by name and version; of the newest checkpoint."""
    newest = max(RunDirectory(run.path).checkpoints.glob("step_*/trainer.json"), default=None)
    if newest is None:
        return "" if run.recipe is None else str(run.recipe.data.verifier)
    trainer = read_json(newest)
    if not isinstance(trainer, dict) or not isinstance(trainer.get("verifiers", []), list):
        raise DataError(f"{newest} is damaged: its verifiers are not a list")
    return ", ".join(f"{one['name']} {one['version']}" for one in trainer.get("verifiers", []))


def _software(run: ReportRun) -> str:
    """Software that trained the run; where that changed, with the step."""
    told: list[str] = []
    for row in read_software(run.path):
        since = f"from step {row['first_step']} on " if told else ""
        told.append(since + ", ".join(f"{k} {v}" for k, v in row.items() if k != "first_step"))
    return "; ".join(told)
