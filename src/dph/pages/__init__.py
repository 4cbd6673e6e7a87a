"""Run directories as pages that a person reads in a browser: ``dph report`` makes one HTML file.

Needs the extra ``dph-rl[report]`` (altair, vl-convert-python).
"""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.pages.answers import Limits
    from dph.pages.report_data import ReportData, read_report
    from dph.pages.report_file import Written, write_report

__all__ = ["Limits", "ReportData", "Written", "read_report", "write_report"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Limits": "dph.pages.answers",
        "ReportData": "dph.pages.report_data",
        "Written": "dph.pages.report_file",
        "read_report": "dph.pages.report_data",
        "write_report": "dph.pages.report_file",
    },
)
