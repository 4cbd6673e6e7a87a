"""The report of run directories, made anew when their files change."""

import hashlib
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dph.errors import DphError
from dph.results.read.found_runs import runs_at
from dph.results.read.run_results import RunResults
from dph.results.report.answers import Limits, answer_blocks, gzipped
from dph.results.report.charts import training_charts
from dph.results.report.page import page_html, page_styles, progress_of, report_index
from dph.results.report.report_data import ReportData, read_report
from dph.runs.directory import (
    EVALUATION,
    METRICS,
    PROBLEMS_FILE,
    PROGRESS_FILE,
    RECIPE,
    SAMPLES,
    TOKENS_FILE,
)
from dph.runs.evaluate.answers.read import answer_files

logger = logging.getLogger(__name__)

LOGS = (METRICS, PROGRESS_FILE)
"""Files that grow while a run trains."""
ANSWERS = (SAMPLES, EVALUATION, PROBLEMS_FILE, TOKENS_FILE, RECIPE)
"""Files that an evaluation writes whole."""


def state_of(directories: Iterable[Path], names: Iterable[str]) -> str:
    """A digest of the sizes and times of the files of these names; it changes when they do.

    A file is one of answers, which counts itself.
    """
    looked = hashlib.sha256()
    names = tuple(names)
    for directory in directories:
        for name in names:
            file = directory if directory.is_file() else directory / name
            looked.update(f"{directory}\0{name}\0{_stamp(file)}\0".encode())
    return looked.hexdigest()[:16]


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except FileNotFoundError:
        return "-"
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def answers_state(places: Sequence[Path]) -> str:
    """State of the answers of the runs at ``places`` and of their initial policies."""
    runs = runs_at(places)
    around = [(run, *answer_files(run), *RunResults(run).base_places) for run in runs]
    return state_of([path for paths in around for path in paths], ANSWERS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedPage:
    """A report as it is served; ``parts`` are gzipped JSON: the index, and pieces of answers."""

    state: str
    data: ReportData
    html: str
    styles: str
    parts: Mapping[str, bytes]
    answers: int


def read_page(places: Sequence[Path], *, title: str, seed: int) -> ServedPage:
    """Read the runs at ``places`` and make their page."""
    state = answers_state(places)  # before reading: a file that changes meanwhile is read again
    data = read_report(places, seed=seed)
    blocks = answer_blocks(data, Limits(longest=LONGEST), pack=gzipped)
    return ServedPage(
        state=state,
        # Answers are in the parts now; they are most of the memory.
        data=replace(data, runs=[replace(run, samples=None, tokens={}) for run in data.runs]),
        html=page_html(data, title=title, served=state, answers=blocks.answers),
        styles="\n".join(page_styles(data)),
        parts={"index": gzipped(report_index(data, blocks.index)), **blocks.pieces},
        answers=blocks.answers,
    )


LONGEST = 1_000_000
"""Characters of a text that are served."""


_LOOK_EVERY = 1.0
"""Seconds between looks at the files."""
_ASKED_LATELY = 15.0
"""Seconds after the last request during which files are looked at."""


class ServedRuns:
    """The runs at ``places``, as a server shows them."""

    def __init__(self, places: Sequence[Path], *, title: str = "dph view", seed: int = 0) -> None:
        self._places, self._title, self._seed = list(places), title, seed
        self._stop, self._asked = threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._keep_up, name="dph view", daemon=True)
        self._error = ""
        self.page = read_page(self._places, title=title, seed=seed)
        self._tried = self.page.state
        self._read_logs()

    def start(self) -> None:
        """Begin to follow the files."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def state(self) -> dict[str, Any]:
        """State that a page asks for repeatedly: names that change with the data, and progress."""
        self._asked = time.monotonic()
        return {
            "charts": self._logs,
            "answers": self.page.state,
            "error": self._error,
            "progress": self._progress,
        }

    def charts(self) -> list[dict[str, Any]]:
        """The charts of training, up to date."""
        return self._charts

    def _keep_up(self) -> None:
        while not self._stop.wait(_LOOK_EVERY):
            try:
                if time.monotonic() - self._asked < _ASKED_LATELY:
                    self._look()
                    self._error = "" if self.page.state == self._tried else self._error
            except (DphError, OSError) as error:
                self._error = f"cannot be read: {error}"
            except Exception:
                self._error = "dph view failed; see its terminal for the cause"
                logger.exception("dph view stopped reading")
                raise

    def _look(self) -> None:
        state = answers_state(self._places)
        if state != self._tried:
            self._tried = state  # an unreadable file is read again when it has changed
            self.page = read_page(self._places, title=self._title, seed=self._seed)
            self._read_logs()
        elif self._logs_state() != self._logs:
            self._read_logs()

    def _logs_state(self) -> str:
        return state_of([run.path for run in self.page.data.runs], LOGS)

    def _read_logs(self) -> None:
        """Draw the charts of training; the state is taken first, so that nothing is missed."""
        logs = self._logs_state()
        runs = [run.with_logs() for run in self.page.data.runs]
        self._charts = [one.document() for one in training_charts(runs, self.page.data.groups)]
        self._progress = progress_of(runs)
        self._logs = logs
