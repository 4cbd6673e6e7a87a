"""Growth curves as CSV and as a figure."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dph._base.files import atomic_path, write_text
from dph.results.charts.panels import FAINT, INK, title
from lab.benchmarks.speed.runs import Row

COLUMNS = ("curve", "value", "threads", "side", "seconds", "fastest", "slowest", "repeats")
PANELS = {
    "prompt": ("Prompt length", "tokens"),
    "completion": ("Completion length", "tokens"),
    "samples": ("Group size G", "completions a prompt"),
    "vocabulary": ("Vocabulary", "words"),
    "hidden": ("Model width", "hidden size"),
}
SIDES = {"ours": ("dph", "#0072B2", "o"), "peer": ("TRL 1.16", "#D55E00", "s")}


def write_growth(rows: Sequence[Row], out: Path) -> None:
    """Write growth.csv and growth.png beside the results, if there is anything to show."""
    growth = [row for row in rows if row["bench"] == "growth" and row["device"] == "cpu"]
    if not growth:
        return
    write_text(out / "growth.csv", growth_csv(growth))
    with style.context(["default", {"axes.spines.top": False, "axes.spines.right": False}]):
        figure = draw_growth(growth)
        with atomic_path(out / "growth.png") as temporary:
            figure.savefig(temporary, format="png", dpi=160, metadata={"Software": None})


def growth_csv(growth: Sequence[Row]) -> str:
    """One line a point and side."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in growth:
        for side in SIDES:
            point = (row["curve"], row["value"], row["threads"], side)
            table.writerow((*point, row[f"{side}_s"], *row[f"{side}_range"], row["repeats"]))
    return text.getvalue()


def draw_growth(growth: Sequence[Row]) -> Figure:
    """One panel a curve: seconds a step over what varies, both sides."""
    curves = [name for name in PANELS if any(row["curve"] == name for row in growth)]
    figure = Figure(figsize=(3.6 * len(curves), 3.6), layout="constrained")
    for ax, curve in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves, strict=True):
        _panel(ax, curve, [row for row in growth if row["curve"] == curve])
    return figure


def _panel(ax: Axes, curve: str, rows: Sequence[Row]) -> None:
    rows = sorted(rows, key=lambda row: row["value"])
    values = [row["value"] for row in rows]
    for side, (label, colour, marker) in SIDES.items():
        low, high = zip(*(row[f"{side}_range"] for row in rows), strict=True)
        ax.fill_between(values, low, high, color=colour, alpha=0.2, linewidth=0)
        seconds = [row[f"{side}_s"] for row in rows]
        ax.plot(values, seconds, color=colour, marker=marker, markersize=5, label=label)
    heading, unit = PANELS[curve]
    title(ax, heading, _detail(rows))
    ax.set_xlabel(unit, color=INK)
    ax.set_ylabel("seconds a step", color=INK)
    ax.set_ylim(bottom=0)
    ax.tick_params(colors=FAINT)
    if curve in ("vocabulary", "samples"):
        ax.set_xscale("log", base=2)
    ax.legend(frameon=False, loc="upper left")


def _detail(rows: Sequence[Row]) -> str:
    first, last = rows[0], rows[-1]
    if "slope_ratio" in first:
        return f"our slope is {first['slope_ratio']:.3f} of TRL's"
    return f"TRL / dph: {first['ratio']:.1f} to {last['ratio']:.1f}"
