"""Grading a file of any length in bounded memory, so that a kill costs little and loses no row.

The rows are graded a chunk at a time, two chunks side by side: while one waits for an answer
that hangs, the next keeps the workers busy. A finished chunk is a file; the target appears
under its name only when all are there.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dph._base.files import atomic_file, only_writer, sha256
from dph._base.files.parts import Earlier, Parts
from dph._base.files.rows import Chunk, column_names, read_chunks
from dph.errors import DataError
from dph.records import UNGRADED, Outcome, TimedVerdict
from dph.tasks.grading.part_files import (
    Columns,
    join_parts,
    part_suffix,
    parts_directory,
    read_part,
    require_target,
    write_part,
)

ADDED = ("reward", "outcome", "reason", "seconds")
CHUNK_ROWS = 1024
_CHUNKS_IN_FLIGHT = 2


class RowGrader(Protocol):
    """Grades rows. It is called from several threads at the same time.

    ``required`` names the columns that it reads; a value that is missing or null in one row is
    the grader's to judge. ``settings`` is JSON, all that its verdicts depend on.
    """

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that every file must have."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the verdicts depend on: a job with other settings is another job."""
        ...

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One verdict for each row, in order, with the seconds it took."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeSummary:
    """What came out; ``seconds`` and ``graded`` leave out what an earlier run had finished.

    ``mean_reward`` is over the rows that could be graded, None if there are none.
    """

    rows: int
    outcomes: Mapping[Outcome, int]
    mean_reward: float | None
    graded: int
    seconds: float

    @property
    def ungradable(self) -> int:
        """Rows that could not be graded: their gold cannot be, or grading them crashed."""
        return sum(self.ungradable_outcomes.values())

    @property
    def ungradable_outcomes(self) -> dict[Outcome, int]:
        """How many rows could not be graded, by outcome, where there are any."""
        return {
            each: self.outcomes[each]
            for each in Outcome
            if each in UNGRADED and self.outcomes[each]
        }

    @property
    def rows_per_second(self) -> float | None:
        """The speed of this run, or None if it had nothing to grade."""
        return self.graded / self.seconds if self.graded and self.seconds > 0 else None


def grade_file(
    source: Path,
    target: Path,
    *,
    grader: RowGrader,
    resume: bool = False,
    replace: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
    chunk_rows: int = CHUNK_ROWS,
) -> GradeSummary:
    """Write the rows of ``source`` with their verdicts to ``target``, in order.

    Args:
        source: a file of rows (dph._base.files.rows.SUFFIXES).
        target: such a file too; it is replaced when all rows are graded.
        grader: what grades the rows.
        resume: go on where a killed run of the same job stopped.
        replace: leave out the verdicts that ``source`` holds already.
        on_progress: called with the number of rows that were finished, in order.
        chunk_rows: rows that are graded and kept together.

    Raises:
        DataError: a file cannot be read or written, lacks a required column or already has one
            of the added ones, there is another job to resume, or another process is writing
            the same target.
    """
    _check(source, target, grader, replace=replace)
    started = time.monotonic()
    job = {"source": sha256(source), "grader": dict(grader.settings), "chunk_rows": chunk_rows}
    with only_writer(parts_directory(target)):
        earlier = Earlier.REQUIRED_SAME if resume else Earlier.REMOVED
        parts = Parts(parts_directory(target), job=job, suffix=part_suffix(target), earlier=earlier)
        tally = _Tally()
        chunks = _unjudged(source, read_chunks(source, chunk_rows), replace=replace)
        for index, (rows, graded) in enumerate(_chunks(chunks, parts, grader)):
            tally.add(parts.path(index), rows, graded)
            on_progress(rows)
        with atomic_file(target) as temporary:
            done = [parts.path(index) for index in range(tally.parts)]
            columns = [name for name in column_names(source) if name not in ADDED]
            join_parts(done, temporary, name=target.name, columns=[*columns, *ADDED])
        parts.remove()
    return tally.summary(time.monotonic() - started)


class _Tally:
    """Counts what the parts hold."""

    def __init__(self) -> None:
        self.parts = self._rows = self._graded = 0
        self._reward = 0.0
        self._outcomes: Counter[Outcome] = Counter()

    def add(self, part: Path, rows: int, graded: bool) -> None:
        rewards, outcomes = read_part(part, ("reward", "outcome"))
        if len(rewards) != rows:
            raise DataError(f"{part} has {len(rewards)} rows, its chunk {rows}; start again")
        self.parts += 1
        self._rows += rows
        self._graded += rows if graded else 0
        pairs = zip(rewards, outcomes, strict=True)
        self._reward += sum(reward for reward, outcome in pairs if outcome not in UNGRADED)
        self._outcomes.update(Outcome(outcome) for outcome in outcomes)

    def summary(self, seconds: float) -> GradeSummary:
        gradable = self._rows - sum(self._outcomes[outcome] for outcome in UNGRADED)
        return GradeSummary(
            rows=self._rows,
            outcomes={outcome: self._outcomes[outcome] for outcome in Outcome},
            mean_reward=self._reward / gradable if gradable else None,
            graded=self._graded,
            seconds=seconds,
        )


def _unjudged(source: Path, chunks: Iterable[Chunk], *, replace: bool) -> Iterator[Chunk]:
    """The chunks without the verdicts of an earlier grading; only if ``replace`` are there any."""
    for chunk in chunks:
        found = {name for row in chunk.rows for name in ADDED if name in row}
        if found and not replace:
            _refuse_verdicts(source, found)
        yield chunk.without(ADDED) if found else chunk


def _chunks(chunks: Iterable[Chunk], parts: Parts, grader: RowGrader) -> Iterator[tuple[int, bool]]:
    """Grade what is not finished; for each chunk in order its rows and whether it was graded."""
    running: deque[tuple[int, Future[None] | None]] = deque()
    threads = ThreadPoolExecutor(_CHUNKS_IN_FLIGHT, thread_name_prefix="dph-grade")
    try:
        for index, chunk in enumerate(chunks):
            task = None
            if not parts.path(index).exists():
                task = threads.submit(_grade_chunk, grader, chunk, parts, index)
            running.append((len(chunk.rows), task))
            if len(running) > _CHUNKS_IN_FLIGHT:
                yield _finish(*running.popleft())
        while running:
            yield _finish(*running.popleft())
    except Exception:  # the chunk beside the one that failed may be finished, and is kept
        threads.shutdown(wait=True, cancel_futures=True)
        raise
    finally:  # Ctrl-C waits for nothing: whoever owns the grader closes it
        threads.shutdown(wait=False, cancel_futures=True)


def _finish(rows: int, task: Future[None] | None) -> tuple[int, bool]:
    if task is not None:
        task.result()
    return rows, task is not None


def _grade_chunk(grader: RowGrader, chunk: Chunk, parts: Parts, index: int) -> None:
    graded = grader.grade_rows(chunk.rows) if chunk.rows else []
    with parts.writing(index) as path:
        write_part(path, chunk, _columns(graded))


def _columns(graded: Sequence[TimedVerdict]) -> Columns:
    return {
        "reward": (pa.float64(), [row.verdict.reward for row in graded]),
        "outcome": (pa.string(), [str(row.verdict.outcome) for row in graded]),
        "reason": (pa.string(), [_printable(row.verdict.reason) for row in graded]),
        "seconds": (pa.float64(), [row.seconds for row in graded]),
    }


def _printable(text: str) -> str:
    """Text that can be stored: half of a surrogate pair is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _check(source: Path, target: Path, grader: RowGrader, *, replace: bool) -> None:
    require_target(target)
    names = column_names(source)
    if source.resolve() == target.resolve():
        raise DataError(f"the output must be another file than the input {source}")
    if not names:  # an empty file has no fields to check
        return
    if missing := [name for name in grader.required if name not in names]:
        raise DataError(
            f"{source} has no column {', '.join(map(repr, missing))}; it has {', '.join(names)}"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{source} has the column {', '.join(map(repr, twice))} more than once")
    if not replace:
        _refuse_verdicts(source, names)


def _refuse_verdicts(source: Path, names: Collection[str]) -> None:
    if taken := [name for name in ADDED if name in names]:
        raise DataError(
            f"{source} already has the column {', '.join(map(repr, taken))}, which grading adds; "
            "grade with --replace to leave the earlier verdicts out, or rename it"
        )
