"""Run directories as pages that a person reads in a browser: ``dph report`` makes one HTML file.

Needs the extra ``dph-rl[report]`` (altair, vl-convert-python).
"""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.results.report.answers import Limits
    from dph.results.report.page import ReportFile, write_report
    from dph.results.report.report_data import ReportData, read_report

__all__ = ["Limits", "ReportData", "ReportFile", "read_report", "write_report"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Limits": "dph.results.report.answers",
        "ReportData": "dph.results.report.report_data",
        "ReportFile": "dph.results.report.page",
        "read_report": "dph.results.report.report_data",
        "write_report": "dph.results.report.page",
    },
)
