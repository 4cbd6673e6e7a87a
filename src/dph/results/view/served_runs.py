"""Runs that are served, kept up with as their files change; requests read what is there.

One thread does all reading. It looks once a second: changed answers are read anew and analysed, and
logs as long as somebody has the page open.
"""

import json
import logging
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_text
from dph._processes.jobs.cores import CoreJobs
from dph._processes.jobs.processes import Fresh, Job
from dph.errors import DphError
from dph.results.report.charts import training_charts
from dph.results.report.page import page_html, page_styles, progress_of
from dph.results.report.report_data import ReportRun, changes_of, read_report
from dph.results.report.run_table import run_table
from dph.results.report.set_charts import set_charts
from dph.results.view.snapshot import LOGS, Snapshot, answers_state, read_snapshot, state_of

# Comparison and diagnosis of the runs, in a process of its own: they take long and much memory.

_ENTRY = "dph.results.view.served_runs:analyse"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisResult:
    """The page, its table of runs, charts of sets, and what became of problems by set and run."""

    html: str
    table: dict[str, Any]
    charts: list[dict[str, Any]]
    changes: Mapping[str, Mapping[str, Mapping[str, str]]]


def page_of(state: str, answers: int) -> dict[str, Any]:
    """Values of the template of a served page."""
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
    found = {"table": run_table(data).document(), "charts": charts, "changes": changes}
    write_text(out / "analysis.json", json.dumps(found))


class Analysis:
    """An analysis under way."""

    def __init__(self, payload: Mapping[str, Any], out: Path) -> None:
        self._out = out
        # One job alone: nothing that others could use is imported for it.
        log = out / "analysis.log"
        self._jobs = CoreJobs(1, lambda _: log, entry=_ENTRY, start_by=Fresh)
        self._jobs.start(Job(id="analysis", payload={**payload, "out": str(out)}))

    def result(self) -> AnalysisResult | str | None:
        """The result, or the reason for having none; None while it runs."""
        ended = self._jobs.poll()
        if ended is None:
            return None
        if ended.error:
            return ended.error
        html = (self._out / "page.html").read_text(encoding="utf-8")
        return AnalysisResult(html=html, **read_json(self._out / "analysis.json"))

    def close(self) -> None:
        """End it."""
        self._jobs.close()


logger = logging.getLogger(__name__)

_LOOK_EVERY = 1.0
"""Seconds between looks at the files."""
_ASKED_LATELY = 15.0
"""Seconds after the last question for which logs are kept up with."""


class ServedRuns:
    """The runs at ``places``, as a server shows them.

    ``page`` is the state of what the page shows: of the answers, and whether they were analysed.

    Raises:
        DataError: there is no run, or one is damaged.
    """

    def __init__(self, places: Sequence[Path], *, title: str = "dph view", seed: int = 0) -> None:
        self._places, self._title, self._seed = list(places), title, seed
        self._stop, self._asked = threading.Event(), time.monotonic()
        self._said, self._not_compared = "", ""
        self._analysis: Analysis | None = None
        self._reading: Iterator[None] | None = None
        self._training: list[dict[str, Any]] = []
        self._logged: Sequence[ReportRun] = ()
        self.logs = ""
        self._thread = threading.Thread(target=self._keep_up, name="dph view", daemon=True)
        snapshot = read_snapshot(self._places)
        self._tried = snapshot.state
        self._directory = tempfile.TemporaryDirectory(
            prefix="dph-view-", ignore_cleanup_errors=True
        )
        try:
            self._take(snapshot)
            self._read_logs()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Begin to keep up."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and what it began."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._analysis is not None:
            self._analysis.close()
        self._directory.cleanup()

    def charts(self) -> list[dict[str, Any]]:
        """Every chart of the page."""
        return [*self._set_charts, *self._training]

    def state(self) -> dict[str, Any]:
        """State that a page asks for repeatedly; names change with what they name."""
        self._asked = time.monotonic()
        texts = self.snapshot.texts
        return {
            "charts": f"{self.logs} {self.page}",
            "answers": self.page,
            "reading": self._said
            or self._not_compared
            or ("comparing …" if self._analysis else ""),
            "texts": [texts.read, texts.parts],
            "progress": progress_of(self._logged),
        }

    def styles(self) -> str:
        """The page's styles."""
        return "\n".join(page_styles(self.snapshot.data()))

    def _keep_up(self) -> None:
        """Look again and again; what cannot be read is told, and looked at again."""
        try:
            while not self._stop.is_set():
                try:
                    self._look()
                    self._said = ""
                except (DphError, OSError) as error:
                    self._said = f"cannot be read: {error}"
                self._stop.wait(0 if self._reading else _LOOK_EVERY)
        except Exception:
            self._said = "dph view failed; see its terminal for the cause"
            logger.exception("dph view stopped reading")
            raise

    def _look(self) -> None:
        if self._reading is not None and next(self._reading, self) is self:
            self._reading = None
        if self._analysis is not None and (found := self._analysis.result()) is not None:
            self._analysis = None
            self._take_in(found)
        if time.monotonic() - self._asked > _ASKED_LATELY:
            return
        state = answers_state(self._places)
        if state != self._tried:
            self._tried = state  # what cannot be read is read again when it has changed
            self._take(read_snapshot(self._places))
            self._read_logs()
        elif self._logs_state() != self.logs:
            self._read_logs()

    def _logs_state(self) -> str:
        return state_of([run.path for run in self.snapshot.runs], LOGS)

    def _take(self, snapshot: Snapshot) -> None:
        """Show a snapshot, and begin to read and to analyse its answers."""
        if self._analysis is not None:
            self._analysis.close()
            self._analysis = None
        data = snapshot.data()
        self.html = page_html(data, title=self._title, **page_of(snapshot.state, snapshot.answers))
        self.table = run_table(data).document()
        self._set_charts: list[dict[str, Any]] = []
        self.snapshot, self.page = snapshot, snapshot.state
        self._reading = snapshot.texts.read_answers()
        self._not_compared = ""
        if snapshot.answers:
            self._analysis = Analysis(self._payload(), Path(self._directory.name))

    def _payload(self) -> dict[str, Any]:
        return {
            "runs": [str(run.path) for run in self.snapshot.runs if not run.is_base],
            "seed": self._seed,
            "title": self._title,
            "page": f"{self.snapshot.state}-analysed",
            "answers": self.snapshot.answers,
        }

    def _take_in(self, found: AnalysisResult | str) -> None:
        if isinstance(found, str):
            self._not_compared = f"the runs could not be compared: {found}"
            logger.warning("%s", self._not_compared)
            return
        for name, of_set in self.snapshot.sets.items():
            of_set.take_changes(found.changes.get(name, {}))
        self.html, self.table, self._set_charts = found.html, found.table, found.charts
        self.page = f"{self.snapshot.state}-analysed"

    def _read_logs(self) -> None:
        """The training charts anew; the state is taken first, so that nothing is missed."""
        logs = self._logs_state()
        runs = [run.with_logs() for run in self.snapshot.runs]
        charts = training_charts(runs, self.snapshot.groups)
        self._training = [chart.document() for chart in charts]
        self._logged = runs
        self.logs = logs
