"""Work of a worker: put one shard of documents through a stage and write the result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dph._base.files import atomic_file, make_directory, sha256
from dph._base.import_path import load_callable
from dph._processes.workers.handler import Handler, TellStage
from dph.corpus.documents import ContentDigest, Document
from dph.corpus.shards import DROPPED, DROPS, KEPT, Flow
from dph.corpus.stage import DocumentOutcome, DocumentStage, Drop
from dph.corpus.tables import DocumentWriter, TableWriter, read_documents

_TOGETHER = 64
_TOGETHER_BYTES = 262_144
"""Documents that are announced to the parent as one, unless the shard has to be done with care."""


def make_handler(options: Mapping[str, Any]) -> Handler:
    """The handler of a worker: ``options`` name the stage's factory and hold its settings."""
    stage: DocumentStage = load_callable(options["entry"])(options["settings"])
    seconds = float(options["seconds"])

    def handle(request: Any, announce: TellStage) -> Any:
        return do_shard(stage, options["name"], request, lambda name: announce(name, seconds))

    return handle


def do_shard(
    stage: DocumentStage,
    stage_name: str,
    request: Mapping[str, Any],
    announce: Callable[[str], object],
) -> dict[str, Any]:
    """Put a shard through ``stage``.

    Args:
        stage: the stage.
        stage_name: its name, which stands beside what it drops.
        request: ``input`` (a shard), ``out`` (the stage's directory), ``name`` (of the parts to
            write), ``careful`` (announce each document by its id), ``given_up`` (why documents are
            dropped unread, by id: they cost a worker before).
        announce: told what comes next; the time limit begins again.

    Returns:
        What the manifest needs to know of the shard, as JSON.
    """
    pairs = (
        (document, _outcome(stage, document, request["given_up"]))
        for document in _announced(request, announce)
    )
    return write_shard(
        pairs, stage_name, Path(request["out"]), request["name"], tables=stage.tables
    )


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


def _announced(request: Mapping[str, Any], announce: Callable[[str], object]) -> Iterator[Document]:
    together, size = 0, 0
    for document in read_documents(Path(request["input"])):
        if request["careful"]:
            announce(document.id)
        elif not together or together >= _TOGETHER or size >= _TOGETHER_BYTES:
            announce("")
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
    return {
        "id": document.id,
        "stage": stage,
        "reason": first.reason,
        "value": first.value,
        "threshold": first.threshold,
        "kept_id": first.kept_id,
        "note": first.note,
        "reasons": [drop.reason for drop in drops],
        "path": document.path,
        "source": document.source,
        "language": document.language,
        "doc_type": document.doc_type,
        "bytes": document.bytes,
    }
