"""Ingestion: every input read once, then cut into shards; both continue after a kill."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_json
from dph.errors import DataError, SettingsError, StageError
from dph_corpus import remote
from dph_corpus.ingest.reading import ID_TAKEN, LEFT_OUT
from dph_corpus.ingest.sources import Unit, plan
from dph_corpus.ingest.spill import SKIPPED, SKIPPED_FILE, GatherShard, MergeSpills, ReadUnit
from dph_corpus.running import BOARDS, run_steps
from dph_corpus.shards import (
    MANIFEST,
    MOST_SHARDS,
    Corpus,
    Flow,
    digest,
    is_corpus,
    join_parts,
    open_corpus,
    position_range,
    shard_name,
    shards_for,
)
from dph_corpus.stage_run import OnProgress, finish_stage, sole_writer, whole
from dph_corpus.steps import GIVEN_UP, Step
from dph_corpus.tables import read_table

logger = logging.getLogger(__name__)

VERSION = 3
"""Counts up when the same inputs give other documents."""
_LARGEST_SHARD = 2_000_000_000
"""Bytes of text; a worker holds the documents of a shard while it sorts them."""
_SPILLS, _INGESTED = ".spills", ".ingested.json"
_MOST_RUNS = 256
"""Sorted runs of documents that shards are cut from, and that are merged at a time."""


def ingest(
    units: Sequence[Unit],
    out: Path,
    *,
    shards: int | None = None,
    workers: int = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Read ``units`` (``dph_corpus.ingest.sources.plan``) and write their documents to ``out``.

    The same inputs make the same bytes, whatever their order, the workers, and however often it
    was killed. What cannot become a document is counted by reason (``skipped.parquet``).
    """
    if shards is not None and not 1 <= shards <= MOST_SHARDS:
        raise SettingsError(f"shards must lie in 1..{MOST_SHARDS}, got {shards}")
    key = digest({"version": VERSION, "units": sorted(unit.key() for unit in units)})
    with sole_writer(out):
        if (found := _finished(out, key, shards)) is None:
            found = _ingest(units, out, shards, workers, on_progress)
            write_json(out / _INGESTED, {"key": key})
            remote.sent(out / _INGESTED)
        remote.removed(out / _SPILLS)
    return found


def _ingest(
    units: Sequence[Unit], out: Path, shards: int | None, workers: int, on_progress: OnProgress
) -> Corpus:
    def begin() -> None:
        remote.removed(out / MANIFEST)
        remote.removed(out / _INGESTED)

    notes = out / _SPILLS / ".done"
    reading = [
        ReadUnit(
            name=f"read-{key[:32]}",
            key=digest({"version": VERSION, "unit": key}),
            unit=unit,
            out=(out / _SPILLS / key[:32]).resolve(),
        )
        for unit in units
        for key in (unit.key(),)
    ]
    answers = run_steps(
        reading, notes, workers=workers, most_given_up=1, on_begin=begin, on_progress=on_progress
    )
    size = sum(answer["bytes"] for answer in answers)
    count = shards or shards_for(size)
    if size > count * _LARGEST_SHARD:
        raise SettingsError(
            f"{count} shards of {size / 1e9:.1f} GB would be too large for a worker's memory; "
            f"need at least {-(-size // _LARGEST_SHARD)}"
        )
    runs = [
        [_Piece(step.place(name), sha)]
        for step, answer in zip(reading, answers, strict=True)
        for name, sha in sorted(answer["files"].items())
        if name != SKIPPED_FILE
    ]
    runs = _merged(runs, out, partial(run_steps, notes=notes, workers=workers, on_begin=begin))
    cutting = _cutting(runs, out, count)
    summaries = run_steps(cutting, notes, workers=workers, on_begin=begin)
    skipped = (remote.fetched(step.place(SKIPPED_FILE)) for step in reading)
    join_parts(skipped, out / SKIPPED_FILE, SKIPPED)
    remote.sent(out / SKIPPED_FILE)
    flows = [Flow.of(answer["flow"]) for answer in answers]
    names = [step.name for step in cutting]
    sources = [unit.identity() for unit in units]
    made_by = {"stage": "ingest", "version": VERSION, "sources": sources}
    return finish_stage(out, "ingest", names, summaries, history=[made_by], before=flows)


def _finished(out: Path, key: str, shards: int | None) -> Corpus | None:
    """Result of an earlier ingestion of the same in ``out``, if it is whole."""
    try:
        known, corpus = read_json(remote.fetched(out / _INGESTED)), open_corpus(out)
    except DataError:  # unfinished, or a shard is missing
        return None
    if known == {"key": key} and shards in (None, len(corpus.shards)):
        return corpus if whole(corpus) else None
    logger.warning("%s was made from other inputs or in other shards: replaced", remote.shown(out))
    return None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sorted file of documents at positions from ``first`` to ``last``."""

    path: Path
    sha256: str
    first: int = 0
    last: int = 2**64 - 1


def _merged(
    runs: list[list[_Piece]], out: Path, run_steps_of: Callable[[Sequence[Step]], list[Any]]
) -> list[list[_Piece]]:
    """At most ``_MOST_RUNS`` runs with the documents of all.

    A shard opens a few files of each run. Without merging it would open every file, and ingestion
    would take time that grows with the square of its size.
    """
    turn = 0
    while len(runs) > _MOST_RUNS:
        steps = []
        for start in range(0, len(runs), _MOST_RUNS):
            group = runs[start : start + _MOST_RUNS]
            key = digest({"version": VERSION, "merged": [[p.sha256 for p in run] for run in group]})
            steps.append(
                MergeSpills(
                    name=f"merge-{turn}-{start:07d}",
                    key=key,
                    runs=[[piece.path for piece in run] for run in group],
                    out=(out / _SPILLS / f"merged-{turn}-{start:07d}").resolve(),
                )
            )
        answers = run_steps_of(steps)
        runs = [
            [_Piece(step.place(n), d, *answer["ranges"][n]) for n, d in answer["files"].items()]
            for step, answer in zip(steps, answers, strict=True)
        ]
        turn += 1
    return runs


def _cutting(runs: Sequence[Sequence[_Piece]], out: Path, shards: int) -> list[GatherShard]:
    steps = []
    for index in range(shards):
        name, (low, high) = shard_name(index, shards), position_range(index, shards)
        pieces = [p for run in runs for p in run if p.first < high and low <= p.last]
        made_from = [piece.sha256 for piece in pieces]
        key = digest({"version": VERSION, "spills": made_from, "shard": name})
        spills = [piece.path for piece in pieces]
        steps.append(GatherShard(name=name, key=key, out=out, low=low, high=high, spills=spills))
    return steps


# Losses by damage, which nobody asked for; rules that drop documents lose nothing.


def loss_of(corpus: Corpus) -> tuple[str, bool]:
    """A line on inputs that were not read, ids that were taken and documents that cost a worker.

    It is '' without any, and comes with whether they are more than what was read. Where nothing
    was read, all that was left out counts.
    """
    flow, names = corpus.manifest.flow, (*GIVEN_UP.values(), ID_TAKEN)
    dropped = {name: flow.reasons[name] for name in names if name in flow.reasons}
    lost = Counter({name: each.documents for name, each in dropped.items()})
    kept, read = flow.total().kept_documents, flow.total().documents - lost.total()
    lost.update({name: n for name, n in flow.skipped.items() if not read or name not in LEFT_OUT})
    if not lost:
        return "", False
    file = corpus.directory / ("dropped" if dropped else SKIPPED_FILE)
    first = "".join(each.examples[0] for each in [*dropped.values()][:1])
    if not dropped:
        row = next(row for row in read_table(remote.fetched(file)) if row["reason"] in lost)
        first = ": ".join(filter(None, (row["source"], row["path"], row["note"])))
    counts = ", ".join(f"{name} {count}" for name, count in sorted(lost.items()))
    line = f"{corpus.manifest.stage}: lost {lost.total()}, kept {kept}: {counts}; first {first}"
    more = f" and {SKIPPED_FILE}" if dropped and len(lost) > len(dropped) else ""
    return f"{line}; all are in {remote.shown(file)}{more}", lost.total() > read


# Input of a stage: the directory of an earlier stage, or a file of documents.

_OWN_INPUT, _LABEL = ".input", "input"


def open_input(path: Path, out: Path, *, workers: int = 1) -> Corpus:
    """The documents at ``path``: a corpus as it is, anything else ingested below ``out`` first.

    The source of what is ingested is called ``input``, so that documents do not depend on the names
    and the number of the files they come in.
    """
    if is_corpus(path) or any(remote.names(path / board) for board in BOARDS):
        return open_corpus(path)
    found = ingest(plan([f"{_LABEL}={path}"], out=out), out / _OWN_INPUT, workers=workers)
    line, too_much = loss_of(found)
    if too_much:
        raise StageError(f"{line}; to accept it: dph-corpus ingest --allow-loss {path}")
    return found
