"""The quickstart's picture, from what its runs left behind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dph.lab.quickstart.recipes import run_name
from dph.results.charts.figures import quickstart_figure
from dph.runs.directory import RunDirectory, read_metrics


def save_picture(summary: Mapping[str, Any], directory: Path) -> Path:
    """Draw ``quickstart.png`` in the quickstart's directory and return its path."""
    metrics = {
        label: read_metrics(RunDirectory(directory / run_name(label)).metrics)
        for label in summary["methods"]
    }
    path = directory / "quickstart.png"
    quickstart_figure(summary, metrics, path)
    return path
