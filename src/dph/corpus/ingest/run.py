"""Ingestion: every input read once, then cut into shards; both continue after a kill."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dph._base.files import only_writer, read_json, write_json
from dph.corpus.ingest.sources import Unit
from dph.corpus.ingest.spill import SKIPPED, SKIPPED_FILE, GatherShard, ReadUnit
from dph.corpus.shards import (
    MANIFEST,
    MOST_SHARDS,
    Corpus,
    Flow,
    digest,
    join_parts,
    open_corpus,
    position_range,
    shard_name,
    shards_for,
)
from dph.corpus.stage_run import OnProgress, finish_stage, whole
from dph.corpus.steps import Workers, run_steps
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

    notes = out / _SPILLS / ".done"
    reading = [_reading(unit, out) for unit in units]
    answers = run_steps(
        reading,
        notes,
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
    cutting = _cutting(reading, answers, out, count)
    summaries = run_steps(cutting, notes, workers=workers, on_begin=begin)
    join_parts([step.place(SKIPPED_FILE) for step in reading], out / SKIPPED_FILE, SKIPPED)
    flows = [Flow.of(answer["flow"]) for answer in answers]
    names = [step.name for step in cutting]
    sources = [unit.identity() for unit in units]
    made_by = {"stage": "ingest", "version": VERSION, "sources": sources}
    return finish_stage(out, "ingest", names, summaries, history=[made_by], before=flows)


def _finished(out: Path, key: str, shards: int | None) -> Corpus | None:
    """Result of an earlier ingestion of the same in ``out``, if it is whole."""
    try:
        known, corpus = read_json(out / _INGESTED), open_corpus(out)
    except DataError:  # unfinished, or a shard is missing
        return None
    same = known == {"key": key} and shards in (None, len(corpus.shards))
    return corpus if same and whole(corpus) else None


def _reading(unit: Unit, out: Path) -> ReadUnit:
    key = unit.key()
    return ReadUnit(
        name=f"read-{key[:32]}",
        key=digest({"version": VERSION, "unit": key}),
        unit=unit,
        out=(out / _SPILLS / key[:32]).resolve(),
    )


def _cutting(
    reading: Sequence[ReadUnit], answers: Sequence[Mapping[str, Any]], out: Path, shards: int
) -> list[GatherShard]:
    spilled = digest([answer["files"] for answer in answers])
    spills = [
        step.place(name)
        for step, answer in zip(reading, answers, strict=True)
        for name in sorted(answer["files"])
        if name != SKIPPED_FILE
    ]
    steps = []
    for index in range(shards):
        name, (low, high) = shard_name(index, shards), position_range(index, shards)
        key = digest({"version": VERSION, "spills": spilled, "shard": name})
        steps.append(GatherShard(name=name, key=key, out=out, low=low, high=high, spills=spills))
    return steps
