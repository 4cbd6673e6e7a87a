"""Cuts spills into the shards of a corpus: each worker takes the documents of one range."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph._base.files.parquet_rows import open_parquet
from dph._processes.workers.handler import Handler, Stage
from dph.corpus.documents import FIELDS, DocType, Document
from dph.corpus.shard_work import write_shard
from dph.corpus.shards import position_range
from dph.corpus.stage import Drop, Outcome


def make_handler(options: Mapping[str, Any]) -> Handler:
    """The handler of a worker that gathers shards."""
    spills = [Path(path) for path in options["spills"]]

    def handle(request: Any, announce: Stage) -> Any:
        announce("")
        low, high = position_range(request["shard"], request["shards"])
        documents = gathered(spills, low, high)
        return write_shard(_once_each(documents), "ingest", Path(request["out"]), request["name"])

    return handle


def gathered(spills: Sequence[Path], low: int, high: int) -> list[Document]:
    """The documents at positions in [low, high), in the order of a corpus.

    Of documents with the same id the one with more stars comes first, then the one changed last;
    then the fields decide, so that the order of the spills does not.
    """
    found = [row for path in spills for row in _rows(path, low, high)]
    found.sort(key=_order)
    return [
        Document(**{name: row[name] for name in FIELDS} | {"doc_type": DocType(row["doc_type"])})
        for row in found
    ]


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(row["position"], row["id"], -row["stars"], -row["commit_time"]),
        *(row[name] for name in FIELDS if name not in ("text", "id", "stars", "commit_time")),
    )


def _rows(path: Path, low: int, high: int) -> Iterator[dict[str, Any]]:
    with open_parquet(path) as file:
        column = file.schema_arrow.names.index("position")
        for group in range(file.metadata.num_row_groups):
            known = file.metadata.row_group(group).column(column).statistics
            if known.min < high and low <= known.max:
                for row in file.read_row_group(group).to_pylist():
                    if low <= row["position"] < high:
                        yield row


def _once_each(documents: Sequence[Document]) -> Iterator[tuple[Document, Outcome]]:
    kept: Document | None = None
    for document in documents:
        if kept is None or document.id != kept.id:
            kept = document
            yield document, Outcome(document)
            continue
        same = document.sha256 == kept.sha256
        drop = Drop("id_repeated" if same else "id_taken", kept_id=kept.id)
        yield document, Outcome(None, [drop])
