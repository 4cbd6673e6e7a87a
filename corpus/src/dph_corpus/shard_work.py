"""Work of a worker: put one shard of documents through a stage and write the result."""

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa

from dph._base.files import atomic_file, make_directory, sha256
from dph._base.import_path import load_callable
from dph_corpus import remote
from dph_corpus.documents import ContentDigest, Document
from dph_corpus.shards import DROPPED, DROPS, KEPT, Flow
from dph_corpus.stage import DocumentOutcome, DocumentStage, Drop
from dph_corpus.steps import Care, Step, paths
from dph_corpus.tables import DocumentWriter, TableWriter, read_documents

_OF_DOCUMENT = ("id", "path", "source", "language", "doc_type", "bytes")
"""Columns of what is dropped that are fields of the document."""
_TOGETHER = 64
_TOGETHER_BYTES = 262_144
"""Documents that are announced to the parent as one, unless the shard has to be done with care."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStep(Step):
    """A step that writes one table to ``out``; notes and answers call it ``label``."""

    label: ClassVar[str]
    schema: ClassVar[pa.Schema]
    out: Path

    @abstractmethod
    def rows(self, care: Care) -> Iterator[Mapping[str, Any]]:
        """The table's rows."""

    @property
    def files(self) -> Mapping[str, Path]:
        """The table."""
        return {self.label: self.out}

    def do(self, care: Care) -> dict[str, Any]:
        """Write the table."""
        make_directory(self.out.parent)
        with atomic_file(self.out) as temporary, TableWriter(temporary, self.schema) as table:
            for row in self.rows(care):
                table.write(row)
        return {"files": {self.label: sha256(self.out)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStep(Step):
    """A step that writes the shard ``name`` of a stage's output into the stage's directory ``out``.

    ``tables`` names the stage's own tables.
    """

    out: Path
    tables: Sequence[str] = ()

    @property
    def files(self) -> Mapping[str, Path]:
        """The shard's part of each table."""
        names = (KEPT, DROPPED, *self.tables)
        return {table: part_path(self.out, table, self.name) for table in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageShard(ShardStep):
    """Puts a shard of documents through the stage that ``entry`` makes of ``settings``."""

    input: Path
    stage: str
    entry: str
    settings: Mapping[str, Any]
    seconds: float

    @property
    def is_movable(self) -> bool:
        """True where no file of this machine is read, by the stage either."""
        return "files" not in self.settings and all(map(remote.url_of, paths(self)))

    def do(self, care: Care) -> dict[str, Any]:
        """Write what becomes of each document; those that are given up are dropped unread."""
        stage = _stage(self.entry, json.dumps(self.settings))
        documents = _announced(self.input, care, self.seconds)
        outcomes = ((each, _outcome(stage, each, care.given_up)) for each in documents)
        return write_shard(outcomes, self.stage, self.out, self.name, tables=stage.tables)


@lru_cache(maxsize=1)
def _stage(entry: str, settings: str) -> DocumentStage:
    """The stage of a worker, which is made once for all shards that it does."""
    stage: DocumentStage = load_callable(entry)(json.loads(settings))
    return stage


def write_shard(
    outcomes: Iterable[tuple[Document, DocumentOutcome]],
    stage: str,
    out: Path,
    name: str,
    *,
    tables: Mapping[str, pa.Schema] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write the parts ``name`` of a stage's output: documents with what became of each, in order.

    Returns:
        What the manifest needs to know of the shard, as JSON.
    """
    flow, content = Flow(), ContentDigest()
    schemas = {DROPPED: DROPS, **tables}
    paths = {table: part_path(out, table, name) for table in (KEPT, *schemas)}
    with ExitStack() as stack:
        temporary = {table: stack.enter_context(_part(path)) for table, path in paths.items()}
        kept = stack.enter_context(DocumentWriter(temporary[KEPT]))
        writers = {
            table: stack.enter_context(TableWriter(temporary[table], schema))
            for table, schema in schemas.items()
        }
        for document, outcome in outcomes:
            flow.record(document, outcome)
            if outcome.document is not None:
                kept.write(outcome.document)
                content.add(outcome.document)
            else:
                writers[DROPPED].write(_drop_row(stage, document, outcome.drops))
            for table, rows in outcome.rows.items():
                for row in rows:
                    writers[table].write(row)
    return {
        "documents": kept.rows,
        "bytes": kept.bytes,
        "content": content.hex(),
        "flow": flow.json(),
        "files": {table: sha256(path) for table, path in paths.items()},
    }


def part_path(out: Path, table: str, name: str) -> Path:
    """Path of a part of a stage's output; parts of its own tables are joined in the end."""
    return out / table / name if table in (KEPT, DROPPED) else out / ".parts" / table / name


def _part(path: Path) -> AbstractContextManager[Path]:
    make_directory(path.parent)
    return atomic_file(path)


def _announced(shard: Path, care: Care, seconds: float) -> Iterator[Document]:
    together, size = 0, 0
    for document in read_documents(shard):
        if care.careful:
            care.announce(document.id, seconds)
        elif not together or together >= _TOGETHER or size >= _TOGETHER_BYTES:
            care.announce("", seconds)
            together, size = 0, 0
        together += 1
        size += document.bytes
        yield document


def _outcome(
    stage: DocumentStage, document: Document, given_up: Mapping[str, str]
) -> DocumentOutcome:
    if (reason := given_up.get(document.id)) is not None:
        return DocumentOutcome(None, [Drop(reason, note="the stage did not finish")])
    return stage(document)


def _drop_row(stage: str, document: Document, drops: Sequence[Drop]) -> dict[str, Any]:
    first = drops[0]
    of_document = {name: getattr(document, name) for name in _OF_DOCUMENT}
    return {
        "stage": stage,
        "reasons": [drop.reason for drop in drops],
        **asdict(first),
        **of_document,
    }
