"""The pool that pre-sampling leaves behind: written whole by one process, checked before use.

    pool/
      manifest.json        what it was made from, counts, SHA-256 of every file
      exploration.parquet  problem_id, prompt, answer, correct
      rehearsal.parquet    problem_id, sample_index, prompt_ids, completion_ids, ref_logprobs,
                           correct; of trajectories also written
      ungradable.parquet   problem_id, outcome, reason
      samples.parquet      every sample drawn with its verdict

docs/files.md describes the columns.
"""

import contextlib
import fcntl
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory, sha256, write_json, write_json_lines
from dph._base.files.rows import Chunk
from dph.errors import DataError, PoolError, SettingsError
from dph.records import Outcome, Problem
from dph.runs.directory import MANIFEST, is_made
from dph.runs.presample.manifest import (
    FORMAT,
    Counts,
    Manifest,
    Rule,
    Source,
    ValueSource,
    read_manifest,
    require_whole,
)
from dph.runs.presample.tables import (
    EXPLORATION,
    GRADED,
    REHEARSAL_FILE,
    UNGRADABLE,
    RehearsalSample,
    Ungradable,
    graded_schema,
    read_rehearsal,
    rehearsal_sample,
    rehearsal_table,
)
from dph.tasks.problems import problem_columns, problem_of_columns, problem_row

SAMPLES = "samples.parquet"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool in memory."""

    manifest: Manifest
    exploration: tuple[Problem, ...]
    rehearsal: tuple[RehearsalSample, ...]
    ungradable: tuple[Ungradable, ...] = ()


def require_free(path: Path) -> None:
    """Refuse a place where a new pool would replace something else."""
    if path.is_dir():
        if not is_made(path) and any(path.iterdir()):
            raise PoolError(
                f"{path} holds files but no pool (there is no manifest.json): a pool needs a new "
                "or an empty directory (presample.pool)"
            )
    elif path.exists():
        raise PoolError(f"the pool cannot be written to {path}: it is a file (presample.pool)")


@contextlib.contextmanager
def only_maker(path: Path) -> Iterator[None]:
    """Hold the pool ``path`` for this process; a second process is refused.

    The lock is on a file next to it, ``.<name>.lock``: the pool itself appears by a rename, so it
    has no file to lock. The operating system drops the lock when the process ends, however that
    happens. The file is removed at the end; one that a killed process left behind does no harm.
    """
    lock = make_directory(path.parent) / f".{path.name}.lock"
    busy = (
        f"another dph process is making the pool {path}; wait for it, or choose another "
        "directory (presample.pool)"
    )
    with contextlib.ExitStack() as held:
        while not _lock(lock, busy, held):
            pass  # its last holder removed the file after it was opened here: take the new one
        held.callback(lock.unlink, missing_ok=True)
        yield


def _lock(lock: Path, busy: str, held: contextlib.ExitStack) -> bool:
    """Lock the file, which is closed with ``held``; false if it is not the one at ``lock`` now."""
    file = held.enter_context(lock.open("a", encoding="utf-8"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataError(busy) from error
    try:
        return os.path.samestat(os.fstat(file.fileno()), lock.stat())
    except FileNotFoundError:
        return False


def write_pool(
    path: Path,
    *,
    source: Source,
    grading: ValueSource,
    rule: Rule,
    counts: Mapping[str, Any],
    exploration: Sequence[tuple[Problem, int]],
    rehearsal: Sequence[RehearsalSample],
    ungradable: Sequence[Ungradable] = (),
    samples: Sequence[pa.Table],
) -> Manifest:
    """Write a pool atomically: either all of it is there afterwards, or what was there before.

    ``samples`` come in the pieces in which they were drawn. Each becomes a row group, because all
    of them as one list may pass 2^31 tokens, and is laid out again, so that the bytes do not
    depend on which ones were read from a file. ``counts`` are those of the split.
    """
    require_free(path)
    stored = rehearsal_table(rehearsal)
    explored = [{**problem_columns(p), "correct": correct} for p, correct in exploration]
    bad = [{name: str(getattr(row, name)) for name in UNGRADABLE.names} for row in ungradable]
    tables: dict[str, tuple[pa.Schema, Sequence[pa.Table]]] = {
        "exploration.parquet": (EXPLORATION, [pa.Table.from_pylist(explored, schema=EXPLORATION)]),
        REHEARSAL_FILE: (stored.schema, [stored]),
        "ungradable.parquet": (UNGRADABLE, [pa.Table.from_pylist(bad, schema=UNGRADABLE)]),
        SAMPLES: (graded_schema(samples[0]) if samples else GRADED, samples),
    }
    make_directory(path.parent)
    with atomic_path(path) as directory:
        directory.mkdir()
        for name, (schema, pieces) in tables.items():
            with pq.ParquetWriter(directory / name, schema, compression="zstd") as writer:
                for piece in pieces:
                    columns = piece.cast(schema).combine_chunks().columns
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
        size = sum((directory / name).stat().st_size for name in tables)
        manifest = Manifest(
            format=FORMAT,
            kind="pool",
            source=source,
            values=grading,
            rule=rule,
            counts=Counts(**counts, **_sizes(samples, size)),
            files={name: sha256(directory / name) for name in tables},
        )
        write_json(directory / MANIFEST, manifest.model_dump(mode="json", exclude_unset=True))
    return manifest


def _sizes(samples: Sequence[pa.Table], size: int) -> dict[str, Any]:
    total = sum(pc.sum(pc.list_value_length(piece["token_ids"])).as_py() or 0 for piece in samples)
    return {
        "answers": sum(piece.num_rows for piece in samples),
        "tokens": total,
        "cut_off": sum(pc.sum(pc.invert(piece["finished"])).as_py() or 0 for piece in samples),
        "bytes_per_token": round(size / max(1, total), 2),
    }


def load_pool(path: str | Path) -> Pool:
    """Read a pool after comparing every file with its SHA-256.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    path = Path(path)
    manifest = read_manifest(path)
    require_whole(path, manifest)
    exploration = pq.read_table(path / "exploration.parquet", schema=EXPLORATION).to_pylist()
    ungradable = pq.read_table(path / "ungradable.parquet", schema=UNGRADABLE).to_pylist()
    return Pool(
        manifest=manifest,
        exploration=tuple(problem_of_columns(row) for row in exploration),
        rehearsal=tuple(map(rehearsal_sample, read_rehearsal(path).to_pylist())),
        ungradable=tuple(
            Ungradable(**{**row, "outcome": Outcome(row["outcome"])}) for row in ungradable
        ),
    )


def read_pieces(pool: Path) -> list[pa.Table]:
    """The samples of a pool, in the pieces in which they were drawn."""
    with pq.ParquetFile(pool / SAMPLES) as found:
        return [found.read_row_group(index) for index in range(found.num_row_groups)]


RATE_COLUMNS = ("pass_rate", "correct", "samples")


def problems_by_rate(
    pool: Path, problems: Sequence[Problem], *, least: int, most: int
) -> list[dict[str, Any]]:
    """Rows of the problems with ``least`` to ``most`` right samples, in the problems' order.

    A row has the fields of the problem's own file, ``pass_rate``, ``correct`` and ``samples``. A
    problem that could not be graded has no rate and is left out, with a warning.
    """
    if not 0 <= least <= most:
        raise SettingsError(f"--right takes LEAST-MOST with 0 <= LEAST <= MOST, got {least}-{most}")
    # The sample after the counted ones only decides whether a problem is rehearsed.
    counted = pc.field("sample_index") < read_manifest(pool).source.answers
    graded = pq.read_table(pool / SAMPLES, columns=["problem_id", "outcome"], filters=counted)
    ids, outcomes = (graded[name].to_pylist() for name in graded.column_names)
    bad = pq.read_table(pool / "ungradable.parquet", columns=["problem_id"])
    samples, ungradable = Counter(ids), set(bad["problem_id"].to_pylist())
    correct = Counter(
        each for each, outcome in zip(ids, outcomes, strict=True) if outcome == Outcome.CORRECT
    )
    rows = [
        _row(problem, correct[problem.problem_id], samples[problem.problem_id])
        for problem in problems
        if problem.problem_id not in ungradable
        and samples[problem.problem_id]
        and least <= correct[problem.problem_id] <= most
    ]
    if ungradable:
        logger.warning("%d problems that could not be graded are left out", len(ungradable))
    if not rows:
        raise PoolError(
            f"no problem has {least} to {most} right answers of {max(samples.values(), default=0)}"
        )
    return rows


def _row(problem: Problem, correct: int, samples: int) -> dict[str, Any]:
    if taken := [name for name in RATE_COLUMNS if name in problem.answer]:
        raise SettingsError(
            f"problem {problem.problem_id!r} has a field {taken[0]!r}, which would be overwritten"
        )
    rate = dict(zip(RATE_COLUMNS, (correct / samples, correct, samples), strict=True))
    return {**problem_row(problem), **rate}


def write_problems(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the rows as a ``.jsonl`` or ``.parquet`` file, whole or not at all."""
    if path.suffix == ".parquet":
        try:
            with atomic_path(path) as part:
                pq.write_table(Chunk(rows).as_table(), part)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            raise DataError(f"the problems are not a table, write .jsonl: {error}") from error
    else:
        write_json_lines(path, rows, ascii_only=False)
