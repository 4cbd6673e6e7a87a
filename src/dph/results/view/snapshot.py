"""Contents of run directories at one moment: counts of all answers, and files that stay open."""

import hashlib
import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError
from dph.results.read.found_runs import find_runs, runs_at
from dph.results.read.run_results import RunResults, read_set_problems
from dph.results.report.report_data import (
    ReportData,
    ReportRun,
    SeedGroup,
    report_runs,
    seed_groups,
    why_incomplete,
)
from dph.results.view.haystack import Texts
from dph.results.view.set_index import AnswerCounts, SetIndex, count_answers
from dph.runs.directory import (
    EVALUATION,
    METRICS,
    PROBLEMS_FILE,
    PROGRESS_FILE,
    RECIPE,
    SAMPLES,
    TOKENS_FILE,
)

# What the files of runs are like now: another name as soon as one of them changed.

LOGS = (METRICS, PROGRESS_FILE)
"""Files that grow while a run trains."""
ANSWERS = (SAMPLES, EVALUATION, PROBLEMS_FILE, TOKENS_FILE, RECIPE)
"""Files that an evaluation writes whole."""


def state_of(directories: Iterable[Path], names: Iterable[str]) -> str:
    """A name for the files of these names in the directories, by their sizes and times."""
    looked = hashlib.sha256()
    names = tuple(names)
    for directory in directories:
        for name in names:
            looked.update(f"{directory}\0{name}\0{_stamp(directory / name)}\0".encode())
    return looked.hexdigest()[:16]


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except FileNotFoundError:
        return "-"
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


# Rows of a parquet file by their place, without the rest of it.

_BATCH = 8192
_KEPT = 2
"""Batches that are kept: neighbouring problems are asked for one after the other."""


class OpenRowFile:
    """A parquet file that stays open: what was counted in it stays true when it is replaced.

    Threads take turns.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        try:
            self._file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"cannot read {path}: {error}") from error
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        self._batches: dict[int, pa.RecordBatch] = {}

    def rows(self, first: int, count: int) -> list[Mapping[str, Any]]:
        """``count`` rows from ``first`` on.

        Raises:
            DataError: the file is damaged.
        """
        found: list[Mapping[str, Any]] = []
        with self._lock:
            while len(found) < count:
                place = first + len(found)
                start, batch = self._batch(place)
                at = place - start
                found += batch.slice(at, count - len(found)).to_pylist()
        return found

    def _batch(self, place: int) -> tuple[int, pa.RecordBatch]:
        for start, batch in self._batches.items():
            if start <= place < start + batch.num_rows:
                return start, batch
        group = bisect_right(self._starts, place) - 1
        if group >= len(self._starts) - 1:
            raise DataError(f"{self._path} has no row {place}")
        start = self._starts[group]
        try:
            for batch in self._file.iter_batches(_BATCH, row_groups=[group]):
                if place < start + batch.num_rows:
                    break
                start += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self._path} is damaged: {error}") from error
        if len(self._batches) >= _KEPT:
            self._batches.pop(next(iter(self._batches)))
        self._batches[start] = batch
        return start, batch


TokenRows = Mapping[tuple[str, str], tuple[int, int]]
"""First row and number of rows of a problem in tokens.parquet, by set and problem."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """Runs as they were when read; ``state`` names the files that this was made of."""

    state: str
    runs: Sequence[ReportRun]
    groups: Sequence[SeedGroup]
    notes: Sequence[str]
    sets: Mapping[str, SetIndex]
    samples: Mapping[str, OpenRowFile]
    tokens: Mapping[str, tuple[OpenRowFile, TokenRows]]
    texts: Texts
    answers: int

    def data(self) -> ReportData:
        """For the page, before anything was compared."""
        return ReportData(
            runs=self.runs,
            problems={},
            comparison={},
            diagnoses={},
            notes=self.notes,
            groups=self.groups,
        )


def answers_state(places: Sequence[Path]) -> str:
    """A name for what the runs at ``places`` answered, and what they are compared with.

    Raises:
        DataError: there is no run.
    """
    around = [(run, *RunResults(run).base_places) for run in runs_at(places)]
    return state_of([path for paths in around for path in paths], ANSWERS)


def read_snapshot(places: Sequence[Path]) -> Snapshot:
    """Read the runs at ``places``; of their answers only what is counted.

    Raises:
        DataError: a file is damaged, or runs have other problems.
    """
    state = answers_state(places)  # before reading: what changes meanwhile is read again
    found = find_runs(places, any_recipe=True)
    runs = report_runs(found, lambda _: None)
    files = {run.key: run.results.samples for run in runs if run.results.is_evaluated}
    problems, notes = read_set_problems({run.results: run.recipe for run in runs})
    samples = {key: OpenRowFile(path) for key, path in files.items()}
    counts = {key: count_answers(path) for key, path in files.items()}
    names = list(dict.fromkeys(name for of_run in counts.values() for name in of_run))
    sets = {name: SetIndex(name, _of_set(counts, name), problems.get(name, {})) for name in names}
    return Snapshot(
        state=state,
        runs=runs,
        groups=seed_groups(runs),
        notes=[*notes, *why_incomplete(found)],
        sets=sets,
        samples=samples,
        tokens={
            run.key: _tokens(path) for run in runs if (path := run.results.place.tokens).is_file()
        },
        texts=Texts(sets, files),
        answers=sum(int(of.rows.sum()) for sets_of in counts.values() for of in sets_of.values()),
    )


def _of_set(counts: Mapping[str, Mapping[str, AnswerCounts]], name: str) -> dict[str, AnswerCounts]:
    return {key: of_run[name] for key, of_run in counts.items() if name in of_run}


def _tokens(path: Path) -> tuple[OpenRowFile, TokenRows]:
    """Places of each problem's tokens; they are read when the problem is looked at."""
    columns = ["set", "problem_id"]
    table = pq.read_table(path, columns=columns)
    keys = list(zip(*(table[name].to_pylist() for name in columns), strict=True))
    changed = [i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]]
    ends = np.append(changed[1:], len(keys)).tolist() if changed else []
    rows = {keys[i]: (i, end - i) for i, end in zip(changed, ends, strict=True)}
    return OpenRowFile(path), rows
