"""Deduplication of a corpus: of each group of copies the best file stays.

First workers mark every document (SHA-256 and bands), then this process finds who is a copy of
whom, on disk (``index``), then workers cut. The outcome depends on the set of documents alone: not
on their order, on how the input was cut into shards, or on the workers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import atomic_file, make_directory, sha256
from dph_corpus import remote
from dph_corpus.dedup.index import CopyIndex
from dph_corpus.dedup.signatures import algorithm_version
from dph_corpus.dedup.work import MEMBERS, CompareMembers, DedupShard, MarkShard
from dph_corpus.running import run_steps
from dph_corpus.settings import Nearness
from dph_corpus.shards import Corpus, digest, position_range, shard_name, shard_of, shards_for
from dph_corpus.stage_run import WORK, OnProgress, finish_stage, made_once
from dph_corpus.steps import Step
from dph_corpus.tables import TableWriter, read_table

VERSION = 2
"""Counts up when the same documents and settings give another outcome."""
_GROUP_BYTES = 64_000_000
"""Text of the candidates that one worker looks at more closely."""


def dedup(
    source: Corpus,
    out: Path,
    *,
    nearness: Nearness,
    shards: int | None = None,
    workers: int = 1,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Corpus:
    """Drop copies and near-copies of ``source`` and return what is kept.

    The file of a group with the most stars is kept, then the last committed, then the smallest id.
    The same documents make the same bytes, however they were cut into shards.
    """
    settings = nearness.json() | ({"rensa": algorithm_version()} if nearness.bands else {})
    made_by = {"stage": "dedup", "version": VERSION, "settings": settings}
    history = [*source.manifest.history, made_by | {"input": source.manifest.content}]
    count = shards or shards_for(source.manifest.bytes)

    def make() -> Corpus:
        job = _Job(source, out, nearness, digest(made_by), workers)
        names = [shard_name(index, count) for index in range(count)]
        summaries = job.cut(job.find(job.marks(on_progress), names), names)
        return finish_stage(out, "dedup", names, summaries, history=history)

    return made_once([source], out, history=history, shards=count, make=make)


@dataclass(frozen=True, slots=True)
class _Job:
    """The parts of the work that processes do."""

    source: Corpus
    out: Path
    nearness: Nearness
    key: str
    workers: int

    def marks(self, on_progress: OnProgress) -> list[Path]:
        """Files of what is known of each document."""
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
        return [remote.fetched(step.out) for step in steps]

    def find(self, marks: Sequence[Path], names: Sequence[str]) -> list[Path]:
        """Files of the copies of each of the shards ``names``."""
        documents, directory = self.source.manifest.documents, self._work("index")
        index = CopyIndex(marks, documents, self.nearness, directory)
        index.find(self.look_closer)
        places = [self._work(f"cut-{name}") for name in names]
        index.write(places)
        return [remote.sent(place) for place in places]

    def look_closer(self, members: Iterator[dict[str, Any]]) -> Iterator[tuple[int, int, float]]:
        """The near-copies in groups of candidates, by their exact similarity."""
        assert self.nearness.least_jaccard is not None
        steps = []
        for number, part in enumerate(self._parts(members)):
            name = f"copies-{number:05d}.parquet"
            made_from = {"members": sha256(part), "input": self.source.manifest.content}
            steps.append(
                CompareMembers(
                    name=name,
                    key=self._key(made_from),
                    least_jaccard=self.nearness.least_jaccard,
                    members=part,
                    shards=self._shards_of(part),
                    out=self._work(name),
                )
            )
        self._run(steps)
        for step in steps:
            for row in read_table(remote.fetched(step.out)):
                yield row["number"], row["kept"], row["value"]

    def _shards_of(self, part: Path) -> list[Path]:
        """The shards that hold the documents of a file of members."""
        shards = self.source.shards
        found = {shard_of(row["id"], len(shards)) for row in read_table(part, ("id",))}
        return [self.source.path(shards[index]) for index in sorted(found)]

    def _parts(self, members: Iterator[dict[str, Any]]) -> list[Path]:
        """The groups in files for about ``_GROUP_BYTES`` of text each."""
        parts: list[Path] = []
        row = next(members, None)
        while row is not None:
            part, size, last = self._work(f"members-{len(parts):05d}.parquet"), 0, row["group"]
            with atomic_file(part) as temporary, TableWriter(temporary, MEMBERS) as table:
                while row is not None and (size < _GROUP_BYTES or row["group"] == last):
                    table.write({name: row[name] for name in MEMBERS.names})
                    size, last = size + row["bytes"], row["group"]
                    row = next(members, None)
            parts.append(remote.sent(part))
        return parts

    def cut(self, copies: Sequence[Path], names: Sequence[str]) -> list[Any]:
        """Write the shards ``names`` without their ``copies``."""
        steps = []
        for index, (name, place) in enumerate(zip(names, copies, strict=True)):
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
