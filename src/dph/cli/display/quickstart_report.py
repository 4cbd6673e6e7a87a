"""The quickstart's report, from what its runs left behind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.lab.quickstart.recipes import run_name
from dph.results.report import read_report, write_report
from dph.results.report.vega_scripts import require_charts


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
