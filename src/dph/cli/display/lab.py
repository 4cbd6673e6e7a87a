"""Output of ``dph quickstart``: words, picture and report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.results.report import read_report, write_report
from dph.results.report.page import require_charts
from dph.runs.directory import RunDirectory, read_metrics
from lab.quickstart.closing_words import closing_words, read_over_seeds
from lab.quickstart.recipes import run_name
from lab.worlds import newest_edition

# The quickstart's last words, beside the table over seeds of its world.


def said_words(summary: Mapping[str, Any], task: str, edition: int | None) -> str:
    """Results on this seed and the result of the table; ``edition`` None is the newest."""
    table = read_over_seeds(f"{task}-{edition or newest_edition(task)}")
    return "\n".join(closing_words(summary, table))


# The quickstart's report, from what its runs left behind.


def save_report(summary: Mapping[str, Any], directory: Path) -> str:
    """Write ``report.html`` in the quickstart's directory and return where it is.

    Without the extra the path's place is taken by what is missing: the runs are done all the same.
    """
    try:
        require_charts()
    except SettingsError as error:
        return f"none, {error}"
    path = directory / "report.html"
    runs = [directory / run_name(label) for label in summary["methods"]]
    write_report(read_report(runs, seed=summary["seed"]), path, title="dph quickstart")
    return str(path)


# The quickstart's picture, from what its runs left behind.


def save_picture(summary: Mapping[str, Any], directory: Path) -> Path:
    """Draw ``quickstart.png`` in the quickstart's directory and return its path."""
    from dph.results.charts.figures import quickstart_figure

    metrics = {
        label: read_metrics(RunDirectory(directory / run_name(label)).metrics)
        for label in summary["methods"]
    }
    path = directory / "quickstart.png"
    quickstart_figure(summary, metrics, path)
    return path
