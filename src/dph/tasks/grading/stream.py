"""Grading a file of any length in bounded memory, so that a kill costs little and loses no row.

The rows are graded a chunk at a time, two chunks side by side: while one waits for an answer
that hangs, the next keeps the workers busy. A finished chunk is a file; the target appears
under its name only when all are there.
"""

import csv
import gzip
import io
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_file, only_writer, sha256
from dph._base.files.parts import Earlier, Parts
from dph._base.files.rows import Chunk, RowFormat, column_names, read_chunks, read_rows, row_format
from dph.errors import DataError
from dph.records import UNGRADED, Outcome, TimedVerdict

Columns = Mapping[str, tuple[pa.DataType | None, Sequence[Any]]]
"""New columns by name: their type (None: that of the values) and one value for each row."""


def parts_directory(target: Path) -> Path:
    return target.with_name(f".{target.name}.parts")


def write_part(path: Path, chunk: Chunk, columns: Columns) -> None:
    if path.suffix == ".parquet":
        with _as_one_table():
            table = chunk.as_table()
            for name, (kind, values) in columns.items():
                table = table.append_column(name, pa.array(values, kind))
            pq.write_table(table, path, compression="zstd")
        return
    names = list(columns)
    with path.open("wb") as file:
        for row, added in zip(
            chunk.rows, zip(*(values for _, values in columns.values()), strict=True), strict=True
        ):
            file.write(_encode({**row, **dict(zip(names, added, strict=True))}))


def read_part(path: Path, names: Sequence[str]) -> list[list[Any]]:
    if path.suffix == ".parquet":
        table = pq.read_table(path, columns=list(names))
        return [table.column(name).to_pylist() for name in names]
    rows = [row for _, row in read_rows(path)]
    return [[row[name] for row in rows] for name in names]


def join_parts(
    parts: Sequence[Path], target: Path, *, name: str, columns: Sequence[str] = ()
) -> None:
    """Write the parts one after the other to ``target``, a part in memory at a time.

    ``name`` is what ``target`` will be called: it says how the rows are written. ``columns`` come
    first in a CSV file.
    """
    form = row_format(Path(name))
    if form is RowFormat.PARQUET:
        _join_tables(parts, target)
        return
    pieces = _csv_pieces(parts, columns) if form is RowFormat.CSV else map(Path.read_bytes, parts)
    with target.open("wb") as file:
        if not name.endswith(".gz"):
            file.writelines(pieces)
            return
        # Without a name and a time in it, the same rows are the same bytes.
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            packed.writelines(pieces)


def _csv_pieces(parts: Sequence[Path], first: Sequence[str]) -> Iterator[bytes]:
    """The columns of all rows, then the rows, part by part; what a row lacks is empty.

    Texts stand as they are, other values as JSON.
    """
    columns = dict.fromkeys(first)
    for part in parts:
        for _, row in read_rows(part):
            columns.update(dict.fromkeys(row))
    yield _csv_lines([list(columns)])
    for part in parts:
        rows = (row for _, row in read_rows(part))
        yield _csv_lines([[_cell(row.get(name)) for name in columns] for row in rows])


def _csv_lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:  # a lone \r ends a line for readers, and may be left unquoted
        (quoted if "\r" in "".join(row) else plain).writerow(row)
    try:
        return text.getvalue().encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"a text cannot be written as UTF-8 ({error}); write to a .jsonl file instead"
        ) from error


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def _as_one_table() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(
            f"the rows do not fit into one table ({error}); write to a .jsonl file instead"
        ) from error


@_as_one_table()
def _join_tables(parts: Sequence[Path], target: Path) -> None:
    schemas = [pq.read_schema(part) for part in parts]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for part in parts:
            table = pq.read_table(part)
            missing = [field for field in schema if field.name not in table.column_names]
            for field in missing:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            writer.write_table(table.select(schema.names).cast(schema))


def _encode(row: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(row, ensure_ascii=False)
    except TypeError as error:
        raise DataError(f"a value is not JSON ({error}); write to a .parquet file") from error
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        return json.dumps(row).encode("ascii") + b"\n"


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

    @property
    def settings(self) -> Mapping[str, Any]:
        """Inputs that decide the verdicts: a job with other settings is another job."""

    def grade_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[TimedVerdict]:
        """One verdict for each row, in order, with the seconds it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeSummary:
    """Summary of a grading; ``seconds`` and ``graded`` leave out the work of an earlier run.

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
        """Number of rows that could not be graded, by outcome."""
        found = self.outcomes
        return {each: found[each] for each in Outcome if each in UNGRADED and found[each]}

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
    columns: Mapping[str, str] = MappingProxyType({}),
    on_progress: Callable[[int], None] = lambda _: None,
    chunk_rows: int = CHUNK_ROWS,
) -> GradeSummary:
    """Write the rows of ``source`` with their verdicts to ``target``, in order.

    Args:
        source: a file of rows (dph._base.files.rows.SUFFIXES).
        target: such a file too; it is replaced when all rows are graded.
        grader: what grades the rows.
        resume: continue where a killed run of the same job stopped.
        replace: leave out the verdicts that ``source`` holds already.
        columns: columns of ``source`` by the names that the grader reads. They are written under
            these names too, so that every other verb finds them; a column of such a name stays.
        on_progress: called with the number of rows that were finished, in order.
        chunk_rows: rows that are graded and kept together.

    Raises:
        DataError: a file cannot be read or written, lacks a required column or already has one
            of the added ones, there is another job to resume, or another process is writing
            the same target.
    """
    _check(source, target, grader, columns, replace=replace)
    started = time.monotonic()
    job = {"source": sha256(source), "grader": dict(grader.settings), "chunk_rows": chunk_rows}
    job |= {"columns": dict(columns)} if columns else {}
    with only_writer(parts_directory(target)):
        earlier = Earlier.REQUIRED_SAME if resume else Earlier.REMOVED
        # The verdicts of a text file are counted from JSON lines.
        suffix = ".parquet" if row_format(target) is RowFormat.PARQUET else ".jsonl"
        parts = Parts(parts_directory(target), job=job, suffix=suffix, earlier=earlier)
        tally = _Tally()
        chunks = _unjudged(source, read_chunks(source, chunk_rows), replace=replace)
        done = _chunks(chunks, parts, partial(_grade_chunk, grader, columns))
        for index, (rows, graded) in enumerate(done):
            tally.add(parts.path(index), rows, graded)
            on_progress(rows)
        with atomic_file(target) as temporary:
            paths = [parts.path(index) for index in range(tally.parts)]
            names = [name for name in column_names(source) if name not in ADDED]
            names += [name for name in columns if name not in names]
            join_parts(paths, temporary, name=target.name, columns=[*names, *ADDED])
        parts.remove()
    return tally.summary(time.monotonic() - started)


class _Tally:
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


def _chunks(
    chunks: Iterable[Chunk], parts: Parts, grade: Callable[[Chunk, Parts, int], None]
) -> Iterator[tuple[int, bool]]:
    """Grade what is not finished; for each chunk in order its rows and whether it was graded."""
    running: deque[tuple[int, Future[None] | None]] = deque()
    threads = ThreadPoolExecutor(_CHUNKS_IN_FLIGHT, thread_name_prefix="dph-grade")
    try:
        for index, chunk in enumerate(chunks):
            task = None
            if not parts.path(index).exists():
                task = threads.submit(grade, chunk, parts, index)
            running.append((len(chunk.rows), task))
            if len(running) > _CHUNKS_IN_FLIGHT:
                yield _finish(*running.popleft())
        while running:
            yield _finish(*running.popleft())
    except Exception:  # the chunk next to the one that failed may be finished, and is kept
        threads.shutdown(wait=True, cancel_futures=True)
        raise
    finally:  # Ctrl-C waits for nothing: the owner of the grader closes it
        threads.shutdown(wait=False, cancel_futures=True)


def _finish(rows: int, task: Future[None] | None) -> tuple[int, bool]:
    if task is not None:
        task.result()
    return rows, task is not None


def _grade_chunk(
    grader: RowGrader, columns: Mapping[str, str], chunk: Chunk, parts: Parts, index: int
) -> None:
    of = columns.items()
    rows = [{**row, **{name: row.get(column) for name, column in of}} for row in chunk.rows]
    graded = grader.grade_rows(rows) if rows else []
    table = chunk.table
    named = {
        name: (None if table is None else table.schema.field(column).type, [r[name] for r in rows])
        for name, column in of
        if not any(name in row for row in chunk.rows)
    }
    # Half of a surrogate pair, which cannot be stored, is escaped.
    reasons = [row.verdict.reason.encode("utf-8", "backslashreplace").decode() for row in graded]
    added: Columns = {
        "reward": (pa.float64(), [row.verdict.reward for row in graded]),
        "outcome": (pa.string(), [str(row.verdict.outcome) for row in graded]),
        "reason": (pa.string(), reasons),
        "seconds": (pa.float64(), [row.seconds for row in graded]),
    }
    with parts.writing(index) as path:
        write_part(path, chunk, {**named, **added})


def _check(
    source: Path, target: Path, grader: RowGrader, columns: Mapping[str, str], *, replace: bool
) -> None:
    row_format(target)  # which refuses other names
    if target.is_dir():
        raise DataError(f"the output {target} is a directory")
    names = column_names(source)
    if source.resolve() == target.resolve():
        raise DataError(f"the output must be a different file from the input {source}")
    if not names:  # an empty file has no fields to check
        return
    read = dict.fromkeys([*(columns.get(n, n) for n in grader.required), *columns.values()])
    if missing := [name for name in read if name not in names]:
        raise DataError(
            f"{source} has no column {', '.join(map(repr, missing))}; it has {', '.join(names)}"
            " (--column NAME=COLUMN names another)"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{source} has the column {', '.join(map(repr, twice))} more than once")
    if not replace:
        _refuse_verdicts(source, names)


def _refuse_verdicts(source: Path, names: Collection[str]) -> None:
    if taken := [name for name in ADDED if name in names]:
        raise DataError(
            f"{source} already has the column {', '.join(map(repr, taken))}, which grading adds; "
            f"use --replace to discard the earlier verdicts, or rename the column"
        )
