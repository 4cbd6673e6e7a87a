"""A mixture of corpora, written as one corpus."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from pathlib import Path

from dph._base.files import atomic_file, make_directory, sha256
from dph.corpus.documents import position
from dph.corpus.flow import Flow
from dph.corpus.mix.selection import Candidate, Selection
from dph.corpus.mix.shares import Mixture
from dph.corpus.mix.work import LEFT_OUT
from dph.corpus.shard_work import part_path
from dph.corpus.shards import (
    DROPPED,
    KEPT,
    Corpus,
    digest,
    position_range,
    shard_name,
    shard_of,
    shards_for,
)
from dph.corpus.stage_run import WORK, OnProgress, finish_stage, made_once
from dph.corpus.tables import TableWriter, read_table
from dph.corpus.task import Notes, Task
from dph.corpus.tasks import Workers, run_tasks
from dph.errors import SettingsError

VERSION = 2
"""Counts up when the same parts and settings give another mixture."""
_MARKS = ("id", "language", "bytes")


def mix(
    parts: Mapping[str, Corpus],
    out: Path,
    *,
    mixture: Mixture,
    shards: int | None = None,
    workers: Workers = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Take of each part what ``mixture`` says, and write it as one corpus.

    A part that has less than its share is told in the manifest's counts (``short <part>``, bytes)
    and never made up for by another.

    Args:
        parts: corpora by the names of the shares.
        out: the directory to write.
        mixture: what is wanted.
        shards: how many to write [default: by the budget].
        workers: processes, or a cluster.
        on_progress: told of finished shards.

    Raises:
        SettingsError: the shares are not those of the parts.
        DataError: a file cannot be read, or ``out`` is a part's directory or held by another
            process.
        StageError: a worker could not do its part.
    """
    _check(parts, mixture)
    names = sorted(parts)
    step = {"stage": "mix", "version": VERSION, "settings": mixture.json()}
    inputs = {name: list(parts[name].manifest.history) for name in names}
    contents = {name: parts[name].manifest.content for name in names}
    history = [step | {"parts": inputs, "contents": contents}]
    count = shards or shards_for(mixture.budget)

    def make() -> Corpus:
        selection = Selection(mixture)
        files = _write_left_out(parts, selection, out, count)
        tasks = [_task(parts, names, out, index, count, file) for index, file in enumerate(files)]
        summaries = run_tasks(
            tasks,
            Notes(out / WORK / "done"),
            handler="dph.corpus.mix.work:make_handler",
            options={},
            workers=workers,
            on_progress=on_progress,
        )
        told = Flow()
        for name, short in selection.shortfalls().items():
            told.counts[f"bytes {name}"] = selection.taken[name]
            told.counts[f"short {name}"] = short
        written = [task.name for task in tasks]
        return finish_stage(out, "mix", written, summaries, history=history, before=[told])

    return made_once(parts.values(), out, history=history, shards=count, make=make)


def _check(parts: Mapping[str, Corpus], mixture: Mixture) -> None:
    if set(parts) != set(mixture.shares):
        raise SettingsError(
            f"each part needs a share and the other way round: parts {', '.join(sorted(parts))}; "
            f"shares {', '.join(sorted(mixture.shares))}"
        )


def _write_left_out(
    parts: Mapping[str, Corpus], selection: Selection, out: Path, count: int
) -> list[Path]:
    """A file for each shard to write, with the documents that it leaves out."""
    left_out: list[list[tuple[Candidate, str]]] = [[] for _ in range(count)]
    merged = merge(
        *(_candidates(name, parts[name]) for name in sorted(parts)), key=lambda found: found[:3]
    )
    for candidate, reason in selection.left_out(found[3] for found in merged):
        left_out[shard_of(candidate.id, count)].append((candidate, reason))
    paths = []
    for index, found in enumerate(left_out):
        path = make_directory(out / WORK) / f"left-out-{shard_name(index, count)}"
        with atomic_file(path) as temporary, TableWriter(temporary, LEFT_OUT) as table:
            for candidate, reason in found:
                table.write({"part": candidate.part, "id": candidate.id, "reason": reason})
        paths.append(path.resolve())
    return paths


def _candidates(name: str, corpus: Corpus) -> Iterator[tuple[int, str, str, Candidate]]:
    for shard in corpus.shards:
        for row in read_table(corpus.path(shard), _MARKS):
            candidate = Candidate(name, row["id"], row["language"], row["bytes"])
            yield position(row["id"]), row["id"], name, candidate


def _task(
    parts: Mapping[str, Corpus],
    names: Sequence[str],
    out: Path,
    index: int,
    count: int,
    left_out: Path,
) -> Task:
    name = shard_name(index, count)
    low, high = position_range(index, count)
    shards = {part: parts[part].within(low, high) for part in names}
    paths = [[str(parts[part].path(s).resolve()) for s in shards[part]] for part in names]
    made_from = {part: [shard.sha256 for shard in shards[part]] for part in names}
    return Task(
        name=name,
        key=digest({"version": VERSION, "from": made_from, "left_out": sha256(left_out)}),
        request={"out": str(out.resolve()), "name": name, "low": low, "high": high}
        | {"names": list(names), "parts": paths, "left_out": str(left_out)},
        files={table: part_path(out, table, name) for table in (KEPT, DROPPED)},
    )
