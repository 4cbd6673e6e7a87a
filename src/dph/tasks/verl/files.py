"""Files of problems as verl's parquet files and back, a thousand rows in memory at a time."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory
from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph.tasks.problems import distinct, problem_line, stream_problems
from dph.tasks.verl.rows import KEPT, problem_of_row, verl_row

_ROWS = 1024
_Item = TypeVar("_Item")


def problems_to_verl(
    source: Path,
    target: Path,
    *,
    data_source: str | None = None,
    ground_truth: str | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the problems of a file as verl's parquet, atomically, and return how many there are.

    The file is read twice: the columns of all rows have to be known before the first is written.
    ``verl_row`` says what becomes of a problem and what ``data_source`` and ``ground_truth`` mean.

    Raises:
        DataError: a file cannot be read or written, a problem is malformed or has no ground truth,
            or the rows do not fit into one table.
    """
    _require_places(source, target, ".parquet")

    def rows() -> Iterator[dict[str, Any]]:
        for index, problem in enumerate(stream_problems(source)):
            yield verl_row(problem, index=index, data_source=data_source, ground_truth=ground_truth)

    with _one_table(source):
        schema = pa.unify_schemas(
            [pa.schema(list(pa.array(chunk).type)) for chunk in _chunks(rows())],
            promote_options="permissive",
        )
        done = 0
        with (
            atomic_path(target) as temporary,
            pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
        ):
            for chunk in _chunks(rows()):
                writer.write_table(pa.Table.from_pylist(chunk, schema=schema))
                done += len(chunk)
                on_progress(len(chunk))
    return done


def verl_to_problems(
    source: Path,
    target: Path,
    *,
    ground_truth: str = "answer",
    number: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the rows of verl's parquet as a ``.jsonl`` file of problems; return how many there are.

    ``problem_of_row`` says what becomes of a row and what ``ground_truth`` and ``number`` mean.

    Raises:
        SettingsError: ``ground_truth`` is a name that a problem needs for something else.
        DataError: a file cannot be read or written, or a row is malformed.
    """
    if ground_truth in ("problem_id", "prompt", KEPT):
        raise SettingsError(f"the ground truth cannot become the field {ground_truth!r}")
    _require_places(source, target, ".jsonl")
    problems = (
        (
            place,
            problem_of_row(
                row, place=place, position=position, ground_truth=ground_truth, number=number
            ),
        )
        for position, (place, row) in enumerate(read_rows(source))
    )
    done = 0
    with atomic_path(target) as temporary, temporary.open("wb") as file:
        for chunk in _chunks(distinct(problems, source)):
            for problem in chunk:
                file.write(_encoded(problem_line(problem)))
            done += len(chunk)
            on_progress(len(chunk))
    return done


def _require_places(source: Path, target: Path, suffix: str) -> None:
    if target.suffix != suffix:
        raise DataError(f"this conversion writes {suffix}, got {target}")
    if source.resolve() == target.resolve():
        raise DataError(f"{target} is the input itself; write to another file")
    make_directory(target.parent)


@contextmanager
def _one_table(source: Path) -> Iterator[None]:
    """Say which file it is whose values have no common type."""
    try:
        yield
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"the rows of {source} do not fit into one table: {error}") from error


def _encoded(line: str) -> bytes:
    try:
        return line.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can carry
        return json.dumps(json.loads(line)).encode("ascii") + b"\n"


def _chunks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    rest = iter(items)
    while chunk := list(islice(rest, _ROWS)):
        yield chunk
