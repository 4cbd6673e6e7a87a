"""What a worker does for ``mix``: merge the parts' documents of one range of positions."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph._processes.workers.handler import Handler, Stage
from dph.corpus.documents import Document, position
from dph.corpus.shard_work import write_shard
from dph.corpus.stage import Drop, Outcome
from dph.corpus.tables import read_documents, read_table

LEFT_OUT = pa.schema([(name, pa.string()) for name in ("part", "id", "reason")])
"""The documents that a mixture leaves out."""


def make_handler(_options: Mapping[str, Any]) -> Handler:
    """The handler of a worker."""

    def handle(request: Any, announce: Stage) -> Any:
        announce("")
        rows = read_table(Path(request["left_out"]))
        left_out = {(row["part"], row["id"]): row["reason"] for row in rows}
        low, high = int(request["low"]), int(request["high"])
        parts = [_part(number, part, low, high) for number, part in enumerate(request["parts"])]
        outcomes = (
            (document, _outcome(document, left_out.get((request["names"][number], document.id))))
            for _, _, number, document in merge(*parts, key=lambda found: found[:3])
        )
        return write_shard(outcomes, "mix", Path(request["out"]), request["name"])

    return handle


def _part(
    number: int, shards: Sequence[str], low: int, high: int
) -> Iterator[tuple[int, str, int, Document]]:
    for path in shards:
        for document in read_documents(Path(path)):
            place = position(document.id)
            if low <= place < high:
                yield place, document.id, number, document


def _outcome(document: Document, reason: str | None) -> Outcome:
    return Outcome(document) if reason is None else Outcome(None, [Drop(reason)])
