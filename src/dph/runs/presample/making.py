"""Making a pool: one process, chunk by chunk, whole or not at all."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory, sha256, write_json
from dph._base.files.parts import TableParts
from dph.errors import DataError, PoolError
from dph.recipe import recipe_digest
from dph.records import Problem
from dph.runs.directory import MANIFEST, is_made
from dph.runs.presample.manifest import (
    FORMAT,
    Counts,
    Manifest,
    Rule,
    Source,
    ValueSource,
)


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
    """Hold the place ``path`` for this process; whoever comes second is refused.

    The lock is on a file next to it, ``.<name>.lock``: the artefact itself appears by a rename, so
    there is nothing in it to hold on to. The operating system drops the lock when the process ends,
    however that happens. The file goes at the end; one that a killed process left is in nobody's
    way.
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


def parts_of(path: Path, source: Source, values: ValueSource, *, size: int) -> TableParts:
    """Place where finished chunks of ``size`` prompts are kept until all are made."""
    # Where the model lies makes no difference to the answers; its fingerprint is in the source.
    drawn = source.model_dump(mode="json", exclude={"model"})
    return TableParts(
        path.with_name(f"{path.name}.partial"),
        digest=recipe_digest(drawn, values.model_dump(mode="json"), FORMAT, size),
    )


def drawn_chunks(
    problems: Sequence[Problem],
    draw: Callable[[Sequence[Problem]], pa.Table],
    parts: TableParts,
    *,
    schema: pa.Schema,
    size: int,
    answers: int,
    on_progress: Callable[[int], None] | None = None,
) -> list[pa.Table]:
    """The tables of ``problems``, ``size`` of them at a time; finished ones are read again.

    Answers depend on (seed, problem, sample index) alone and chunks are always cut alike, so a
    killed run continues to the same bytes. ``on_progress`` is called with the number of
    answers that were there, ``answers`` to each problem.
    """
    tables = []
    for index, start in enumerate(range(0, len(problems), size)):
        chunk = problems[start : start + size]
        table = parts.read(index)
        if table is None:
            table = draw(chunk)
            parts.write(index, table)
        elif on_progress:
            on_progress(len(chunk) * answers)
        tables.append(table.cast(schema).combine_chunks())
    return tables


def read_pieces(file: Path) -> list[pa.Table]:
    """The tables of a file of ``write_answers``, in the pieces that they were made in."""
    with pq.ParquetFile(file) as found:
        return [found.read_row_group(index) for index in range(found.num_row_groups)]


def write_answers(
    path: Path,
    tables: Mapping[str, tuple[pa.Schema, Sequence[pa.Table]]],
    *,
    source: Source,
    values: ValueSource,
    counts: Mapping[str, Any],
    rule: Rule,
) -> Manifest:
    """Write a pool atomically: all of it is there afterwards, or what was before.

    ``tables`` are its files by name, in the pieces that they were made in. Each becomes a row
    group, because all of them as one list may pass 2^31 tokens, and is laid out anew, so that the
    bytes do not tell which ones came from a file. ``counts`` are those but for sizes in bytes.
    """
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
            values=values,
            rule=rule,
            counts=Counts(**counts, bytes_per_token=round(size / max(1, counts["tokens"]), 2)),
            files={name: sha256(directory / name) for name in tables},
        )
        write_json(directory / MANIFEST, manifest.model_dump(mode="json", exclude_unset=True))
    return manifest
