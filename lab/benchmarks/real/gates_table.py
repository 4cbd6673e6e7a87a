"""The gates of a task, from rows of its base model and of GRPO; the table of all tasks tried."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

GREEDY = (0.10, 0.60)
"""A base model's greedy score: neither hopeless nor nearly finished."""
ROOM = 0.15
"""How far its Pass@16 is above that, at least."""
GAIN, GAIN_SEEDS = 4.0, 3
"""GRPO gains at least that many standard errors of greedy, over that many seeds."""
FALL = 2.0
"""And loses at least that many of Pass@16 or Pass@64, after some number of steps."""
SETS = ("in_domain", "cross_domain")
SET = SETS[0]
"""The gates are of this set."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """GRPO minus base over seeds: the mean, its standard error (None: one seed), the seeds."""

    mean: float
    error: float | None
    seeds: int

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {100 * self.error:.1f}"
        return f"{100 * self.mean:+.1f}{error} ({self.seeds})"


def at_temperature(rows: Sequence[Row], temperature: float) -> list[Row]:
    """The rows whose answers were drawn at that temperature; those that name none, at 1."""
    return [row for row in rows if _temperature(row) == temperature]


def gates_table(rows: Sequence[Row]) -> str:
    """One line for each task and size of test at temperature 1, as markdown."""
    rows = at_temperature(rows, 1.0)
    lines = [
        "| task | problems x samples | base: greedy / mean@1 / pass@16 | across | GRPO's steps | "
        "greedy: in domain / across | pass@16 | pass@64 | gates |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    keys = dict.fromkeys((row["task"], row["problems"], row["samples"]) for row in rows)
    for key in keys:
        of_task = [r for r in rows if (r["task"], r["problems"], r["samples"]) == key]
        lines += _lines(key, of_task)
    lines.append("")
    lines.append(
        "In per cent. Changes are GRPO minus base in points, in domain / across, ± their standard "
        "error over development seeds (their number in brackets)."
    )
    return "\n".join(lines) + "\n"


def _lines(key: tuple[str, int, int], rows: Sequence[Row]) -> Iterator[str]:
    task, problems, samples = key
    base = [row for row in rows if not row["steps"]]
    shown = [" / ".join(_percent(base, name, m) for m in _BASE) for name in SETS]
    trained = sorted({(row["learning_rate"], row["steps"]) for row in rows if row["steps"]})
    for rate, number in trained or [(None, 0)]:
        of_rate = [row for row in rows if row["learning_rate"] in (None, rate)]
        metrics = ("greedy", "pass@16", "pass@64")
        changes = [_changes(of_rate, number, metric) for metric in metrics]
        cells = [
            f"`{task}`",
            f"{problems} x {samples}",
            *shown,
            f"{number} at {rate:g}" if number else "-",
            *changes,
            said_gates(of_rate),
        ]
        yield f"| {' | '.join(cells)} |"


_BASE = ("greedy", "mean", "pass@16")


def _changes(rows: Sequence[Row], steps: int, metric: str) -> str:
    """The changes in domain and across, as a cell."""
    found = [change_of(rows, steps, metric, of_set=name) for name in SETS]
    return "-" if None in found else " / ".join(map(str, found))


def _percent(rows: Sequence[Row], name: str, metric: str) -> str:
    found = [row["sets"][name][metric] for row in rows if metric in row["sets"][name]]
    return f"{100 * fmean(found):.0f}" if found else "-"


def change_of(rows: Sequence[Row], steps: int, metric: str, *, of_set: str = SET) -> Change | None:
    """GRPO after ``steps`` minus base, paired by seed; None where no seed has both."""
    base, trained = (
        {
            row["seed"]: row["sets"][of_set][metric]
            for row in rows
            if row["steps"] == number and metric in row["sets"][of_set]
        }
        for number in (0, steps)
    )
    differences = [trained[seed] - base[seed] for seed in base if steps and seed in trained]
    if not differences:
        return None
    count = len(differences)
    error = stdev(differences) / sqrt(count) if count > 1 else None
    return Change(fmean(differences), error, count)


def said_gates(rows: Sequence[Row]) -> str:
    """The gates that failed, those that are not known yet, or that all are passed."""
    found = dict(_gates(rows))
    failed = [name for name, passed in found.items() if passed is False]
    open_ = [name for name, passed in found.items() if passed is None]
    if failed:
        return f"failed: {', '.join(failed)}"
    return f"open: {', '.join(open_)}" if open_ else "passed"


def _gates(rows: Sequence[Row]) -> Iterator[tuple[str, bool | None]]:
    """Each gate by name: whether it is passed; None where too little is measured."""
    base = [row["sets"][SET] for row in rows if not row["steps"]]
    if not base:
        yield "base", None
        return
    greedy = fmean(scores["greedy"] for scores in base)
    many = fmean(scores["pass@16"] for scores in base)
    yield "greedy", GREEDY[0] <= greedy <= GREEDY[1]
    yield "room", many - greedy >= ROOM
    steps = sorted({row["steps"] for row in rows} - {0})
    gains = [c for n in steps if (c := change_of(rows, n, "greedy")) and c.seeds >= GAIN_SEEDS]
    yield "gain", _is_some(gains, GAIN)
    many_ks = ("pass@16", "pass@64")
    falls = [
        Change(-c.mean, c.error, c.seeds)
        for n in steps
        for metric in many_ks
        if (c := change_of(rows, n, metric)) and c.seeds >= GAIN_SEEDS
    ]
    yield "fall", _is_some(falls, FALL)


def _is_some(changes: Sequence[Change], errors: float) -> bool | None:
    """Whether one of the changes is that many of its standard errors above 0."""
    if not changes:
        return None
    return any(c.mean > 0 and c.mean >= errors * (c.error or 0.0) for c in changes)


def temperature_table(rows: Sequence[Row]) -> str:
    """One line for each model and temperature, where more than temperature 1 was measured.

    A model is compared over the seeds that it has at all of its temperatures. Without any such
    model there is no table: "".
    """
    lines = [
        "| task | model | temperature | mean@1: in domain / across | pass@4 | pass@16 | pass@64 | "
        "seeds |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    keys = ("task", "problems", "samples", "learning_rate", "steps")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        of_model = [row for row in rows if tuple(row[name] for name in keys) == key]
        lines += _by_temperature(key[0], key[-1], of_model)
    if len(lines) == 2:
        return ""
    lines += ["", "In per cent, means over the same development seeds; greedy is at none."]
    return "\n".join(lines) + "\n"


_OF_TEMPERATURE = ("mean", "pass@4", "pass@16", "pass@64")


def _by_temperature(task: str, steps: int, rows: Sequence[Row]) -> Iterator[str]:
    measured = {t: at_temperature(rows, t) for t in sorted({_temperature(row) for row in rows})}
    if len(measured) < 2:
        return
    shared = set.intersection(*({row["seed"] for row in found} for found in measured.values()))
    for temperature, found in measured.items():
        of_seeds = [row for row in found if row["seed"] in shared]
        scores = [
            " / ".join(_percent(of_seeds, name, metric) for name in SETS)
            for metric in _OF_TEMPERATURE
        ]
        model = f"GRPO, {steps} steps" if steps else "base"
        cells = [f"`{task}`", model, f"{temperature:g}", *scores, str(len(shared))]
        yield f"| {' | '.join(cells)} |"


def _temperature(row: Row) -> float:
    return float(row.get("temperature", 1.0))
