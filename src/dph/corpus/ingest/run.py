"""Ingestion: every input read once, then cut into shards; both continue after a kill."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dph._base.files import only_writer, read_json, write_json
from dph.corpus.ingest.sources import Unit
from dph.corpus.ingest.spill import SKIPPED, SKIPPED_FILE
from dph.corpus.shard_work import part_path
from dph.corpus.shards import (
    DROPPED,
    KEPT,
    MANIFEST,
    MOST_SHARDS,
    Corpus,
    Flow,
    digest,
    join_parts,
    open_corpus,
    shard_name,
    shards_for,
)
from dph.corpus.stage_run import OnProgress, finish_stage, whole
from dph.corpus.tasks import Notes, Task, Workers, run_tasks
from dph.errors import DataError, SettingsError

VERSION = 1
"""Counts up when the same inputs give other documents."""
_LARGEST_SHARD = 2_000_000_000
"""Bytes of text; a worker holds the documents of a shard while it sorts them."""
_SPILLS, _INGESTED = ".spills", ".ingested.json"


def ingest(
    units: Sequence[Unit],
    out: Path,
    *,
    shards: int | None = None,
    workers: Workers = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Read ``units`` (``dph.corpus.ingest.sources.plan``) and write their documents to ``out``.

    The same inputs make the same bytes, whatever their order, the workers, and however often it
    was killed. What cannot become a document is counted by reason (``skipped.parquet``).

    Args:
        units: what to read.
        out: the directory to write.
        shards: how many there are to be [default: one for every 128 MB].
        workers: processes, or a cluster.
        on_progress: told of units that were read; the shards are not counted.

    Raises:
        DataError: an input cannot be read, or ``out`` is held by another process.
        SettingsError: ``shards`` is out of range, or too small for that many bytes.
        StageError: a worker could not do its part.
    """
    if shards is not None and not 1 <= shards <= MOST_SHARDS:
        raise SettingsError(f"shards must lie in 1..{MOST_SHARDS}, got {shards}")
    key = digest({"version": VERSION, "units": sorted(unit.key() for unit in units)})
    with only_writer(out):
        if (found := _finished(out, key, shards)) is None:
            found = _ingest(units, out, shards, workers, on_progress)
            write_json(out / _INGESTED, {"key": key})
        if (out / _SPILLS).exists():
            shutil.rmtree(out / _SPILLS)
    return found


def _ingest(
    units: Sequence[Unit],
    out: Path,
    shards: int | None,
    workers: Workers,
    on_progress: OnProgress,
) -> Corpus:
    def begin() -> None:
        (out / MANIFEST).unlink(missing_ok=True)
        (out / _INGESTED).unlink(missing_ok=True)

    notes = Notes(out / _SPILLS / ".done")
    reading = [_reading(unit, out) for unit in units]
    answers = run_tasks(
        reading,
        notes,
        handler="dph.corpus.ingest.spill:make_handler",
        options={},
        workers=workers,
        most_given_up=1,
        on_begin=begin,
        on_progress=on_progress,
    )
    size = sum(answer["bytes"] for answer in answers)
    count = shards or shards_for(size)
    if size > count * _LARGEST_SHARD:
        raise SettingsError(
            f"{count} shards of {size / 1e9:.1f} GB would be too large for a worker's memory; "
            f"need at least {-(-size // _LARGEST_SHARD)}"
        )
    cutting = _cutting(answers, out, count)
    summaries = run_tasks(
        cutting,
        notes,
        handler="dph.corpus.ingest.spill:make_gatherer",
        options={"spills": _spills(reading, answers)},
        workers=workers,
        on_begin=begin,
    )
    skipped = [task.folder / SKIPPED_FILE for task in reading if task.folder is not None]
    join_parts(skipped, out / SKIPPED_FILE, SKIPPED)
    flows = [Flow.of(answer["flow"]) for answer in answers]
    names = [task.name for task in cutting]
    sources = [unit.identity() for unit in units]
    step = {"stage": "ingest", "version": VERSION, "sources": sources}
    return finish_stage(out, "ingest", names, summaries, history=[step], before=flows)


def _finished(out: Path, key: str, shards: int | None) -> Corpus | None:
    """Result of an earlier ingestion of the same in ``out``, if it is whole."""
    try:
        known, corpus = read_json(out / _INGESTED), open_corpus(out)
    except DataError:  # unfinished, or a shard is missing
        return None
    same = known == {"key": key} and shards in (None, len(corpus.shards))
    return corpus if same and whole(corpus) else None


def _reading(unit: Unit, out: Path) -> Task:
    key = unit.key()
    folder = (out / _SPILLS / key[:32]).resolve()
    return Task(
        name=f"read-{key[:32]}",
        key=digest({"version": VERSION, "unit": key}),
        request={"unit": unit.request(), "out": str(folder)},
        folder=folder,
        title=unit.label,
    )


def _spills(reading: Sequence[Task], answers: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        str(task.folder / name)
        for task, answer in zip(reading, answers, strict=True)
        if task.folder is not None
        for name in sorted(answer["files"])
        if name != SKIPPED_FILE
    ]


def _cutting(answers: Sequence[Mapping[str, Any]], out: Path, shards: int) -> list[Task]:
    spilled = digest([answer["files"] for answer in answers])
    names = [shard_name(index, shards) for index in range(shards)]
    return [
        Task(
            name=name,
            key=digest({"version": VERSION, "spills": spilled, "shard": name}),
            request={"out": str(out.resolve()), "name": name, "shard": index, "shards": shards},
            files={table: part_path(out, table, name) for table in (KEPT, DROPPED)},
        )
        for index, name in enumerate(names)
    ]
