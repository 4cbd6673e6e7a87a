"""Comparison and diagnosis of the runs, in a process of its own: they take long and much memory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_text
from dph._processes.jobs.cores import CoreJobs
from dph._processes.jobs.job import Job
from dph._processes.jobs.processes import Fresh
from dph.results.report.charts import set_charts
from dph.results.report.page import page_html
from dph.results.report.report_data import read_report
from dph.results.report.run_diagnoses import changes_of

_ENTRY = "dph.results.view.analysis:analyse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """The page with its tables, the charts of sets, and what became of problems by set and run."""

    html: str
    charts: list[dict[str, Any]]
    changes: Mapping[str, Mapping[str, Mapping[str, str]]]


def page_of(state: str, answers: int) -> dict[str, Any]:
    """What the template says of a page that is served."""
    return {"served": state, "answers": answers}


def analyse(payload: Mapping[str, Any]) -> None:
    """Write ``page.html`` and ``analysis.json`` into the payload's directory.

    Raises:
        DataError: a run cannot be read, or runs have other problems.
    """
    out = Path(payload["out"])
    data = read_report([Path(one) for one in payload["runs"]], seed=payload["seed"], texts=False)
    parts = page_of(payload["page"], payload["answers"])
    write_text(out / "page.html", page_html(data, title=payload["title"], **parts))
    changes = {
        name: {run.key: changes_of(data.diagnoses.get(run.key), name) for run in data.runs}
        for name in data.sets
    }
    charts = [chart.document() for chart in set_charts(data)]
    write_text(out / "analysis.json", json.dumps({"charts": charts, "changes": changes}))


class Analysis:
    """An analysis under way."""

    def __init__(self, payload: Mapping[str, Any], out: Path) -> None:
        self._out = out
        # One job alone: nothing that others could use is imported for it.
        log = out / "analysis.log"
        self._jobs = CoreJobs(1, lambda _: log, entry=_ENTRY, start_by=Fresh)
        self._jobs.start(Job(id="analysis", payload={**payload, "out": str(out)}))

    def result(self) -> Analysed | str | None:
        """What was found, or why nothing could be; None as long as it takes."""
        ended = self._jobs.poll()
        if ended is None:
            return None
        if ended.error:
            return ended.error
        html = (self._out / "page.html").read_text(encoding="utf-8")
        return Analysed(html=html, **read_json(self._out / "analysis.json"))

    def close(self) -> None:
        """End it."""
        self._jobs.close()
