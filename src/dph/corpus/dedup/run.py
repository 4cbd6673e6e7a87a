"""Deduplication of a corpus: of each group of copies the best file stays.

First workers mark every document (SHA-256 and bands), then this process finds who is a copy of
whom, then workers cut. The outcome depends on the set of documents alone: not on their order, on
how the input was cut into shards, or on the workers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import atomic_file, make_directory, sha256
from dph.corpus.dedup.decisions import Copy, Marks, copies_of, read_marks
from dph.corpus.dedup.presets import Nearness
from dph.corpus.dedup.signatures import algorithm_version
from dph.corpus.dedup.work import COPIES, MEMBERS, CompareMembers, DedupShard, MarkShard
from dph.corpus.shards import (
    Corpus,
    digest,
    position_range,
    shard_name,
    shard_of,
    shards_for,
)
from dph.corpus.stage_run import WORK, OnProgress, finish_stage, made_once
from dph.corpus.steps import Step, Workers, run_steps
from dph.corpus.tables import TableWriter, read_table

VERSION = 1
"""Counts up when the same documents and settings give another outcome."""
_GROUP_BYTES = 64_000_000
"""Text of the candidates that one worker looks at more closely."""


def dedup(
    source: Corpus,
    out: Path,
    *,
    nearness: Nearness,
    shards: int | None = None,
    workers: Workers = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Drop copies and near-copies of ``source`` and return what is kept.

    The file of a group with the most stars is kept, then the last committed, then the smallest id.
    The same documents make the same bytes, however they were cut into shards.

    Args:
        source: what is read.
        out: the directory to write.
        nearness: how near a near-copy is.
        shards: how many to write [default: by the size of the input].
        workers: processes, or a cluster.
        on_progress: told of shards whose documents are marked.

    Raises:
        SettingsError: rensa is not installed, and near-copies are asked for.
        DataError: a file cannot be read, or ``out`` is the source's directory or held by another
            process.
        StageError: a worker could not do its part.
    """
    settings = nearness.json() | ({"rensa": algorithm_version()} if nearness.bands else {})
    made_by = {"stage": "dedup", "version": VERSION, "settings": settings}
    history = [*source.manifest.history, made_by | {"input": source.manifest.content}]
    count = shards or shards_for(source.manifest.bytes)

    def make() -> Corpus:
        job = _Job(source, out, nearness, digest(made_by), workers)
        marks = job.marks(on_progress)
        copies = copies_of(marks, nearness, job.look_closer)
        names = [shard_name(index, count) for index in range(count)]
        summaries = job.cut(marks, copies, names)
        return finish_stage(out, "dedup", names, summaries, history=history)

    return made_once([source], out, history=history, shards=count, make=make)


@dataclass(frozen=True, slots=True)
class _Job:
    """The parts of the work that processes do."""

    source: Corpus
    out: Path
    nearness: Nearness
    key: str
    workers: Workers

    def marks(self, on_progress: OnProgress) -> Marks:
        """Facts known of each document."""
        steps = [
            MarkShard(
                name=f"marks-{shard.name}",
                key=self._key({"shard": shard.sha256}),
                nearness=self.nearness,
                shard=self.source.path(shard),
                out=self._work(f"marks-{shard.name}"),
            )
            for shard in self.source.shards
        ]
        self._run(steps, on_progress)
        return read_marks([step.out for step in steps])

    def look_closer(self, groups: Sequence[Sequence[int]], marks: Marks) -> list[Copy]:
        """The near-copies of groups of candidates, by their exact similarity."""
        assert self.nearness.least_jaccard is not None
        steps = []
        for number, part in enumerate(_parts(groups, marks)):
            members, name = (
                self._work(f"members-{number:05d}.parquet"),
                f"copies-{number:05d}.parquet",
            )
            with atomic_file(members) as temporary, TableWriter(temporary, MEMBERS) as table:
                for group, documents in enumerate(part):
                    for index in documents:
                        table.write(marks.member(index) | {"group": group})
            made_from = {"members": sha256(members), "input": self.source.manifest.content}
            name = f"copies-{number:05d}.parquet"
            steps.append(
                CompareMembers(
                    name=name,
                    key=self._key(made_from),
                    least_jaccard=self.nearness.least_jaccard,
                    members=members,
                    shards=[self.source.path(shard) for shard in self.source.shards],
                    out=self._work(name),
                )
            )
        self._run(steps)
        return [Copy(**row) for step in steps for row in read_table(step.out)]

    def cut(self, marks: Marks, copies: Sequence[Copy], names: Sequence[str]) -> list[Any]:
        """Write the shards ``names`` without the copies."""
        by_id = {copy.id: copy for copy in copies}
        dropped: list[list[Copy]] = [[] for _ in names]
        for document in marks.ids:
            if document in by_id:
                dropped[shard_of(document, len(names))].append(by_id[document])
        steps = []
        for index, name in enumerate(names):
            place = self._work(f"cut-{name}")
            with atomic_file(place) as temporary, TableWriter(temporary, COPIES) as table:
                for copy in dropped[index]:
                    table.write(copy.row())
            low, high = position_range(index, len(names))
            inputs = self.source.within(low, high)
            made_from = {"copies": sha256(place), "inputs": [shard.sha256 for shard in inputs]}
            steps.append(
                DedupShard(
                    name=name,
                    key=self._key(made_from),
                    out=self.out,
                    low=low,
                    high=high,
                    copies=place,
                    inputs=[*map(self.source.path, inputs)],
                )
            )
        return self._run(steps)

    def _key(self, made_from: Mapping[str, Any]) -> str:
        return digest({"job": self.key, "from": made_from})

    def _run(
        self, steps: Sequence[Step], on_progress: OnProgress = lambda _amount, _note: None
    ) -> list[dict[str, Any]]:
        notes = self.out / WORK / "done"
        return run_steps(steps, notes, workers=self.workers, on_progress=on_progress)

    def _work(self, name: str) -> Path:
        return make_directory(self.out / WORK) / name


def _parts(groups: Sequence[Sequence[int]], marks: Marks) -> list[list[Sequence[int]]]:
    """The groups in parts of about ``_GROUP_BYTES`` of text."""
    parts: list[list[Sequence[int]]] = []
    size = _GROUP_BYTES
    for group in groups:
        if size >= _GROUP_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(group)
        size += int(marks.sizes[list(group)].sum())
    return parts
