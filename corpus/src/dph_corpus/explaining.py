"""The history of one document in every stage: from the directories that they left."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph._base.files import read_json
from dph._base.files.rows import open_parquet
from dph.errors import DataError
from dph_corpus import remote
from dph_corpus.documents import Document
from dph_corpus.shards import DROPPED, MANIFEST, Corpus, is_corpus, open_corpus, shard_of
from dph_corpus.tables import read_table


@dataclass(frozen=True, slots=True)
class StageWord:
    """Verdict of a stage on a document.

    Args:
        stage: the stage.
        directory: where it wrote.
        kept: the document that it left, if it did.
        dropped: its row in ``dropped``, if it is there. Neither: the stage never saw it.
        rows: the document's rows in the stage's own tables, by table.
    """

    stage: str
    directory: Path
    kept: Document | None
    dropped: Mapping[str, Any] | None
    rows: Mapping[str, Sequence[Mapping[str, Any]]]


def explain(document_id: str, directories: Sequence[Path]) -> list[StageWord]:
    """The verdicts of the stages in ``directories`` on a document, in the order in which they ran.

    A directory is a stage's own, or one that holds those of several stages.
    """
    corpora = [corpus for directory in directories for corpus in _stages(directory)]
    corpora.sort(key=lambda corpus: len(corpus.manifest.history))
    words = [_word(document_id, corpus) for corpus in corpora]
    if not any(word.kept or word.dropped for word in words):
        raise DataError(f"no stage saw a document {document_id!r}; use an id made by `ingest`")
    return words


def text_digest(text: str) -> str:
    """The beginning of a text's SHA-256, enough to see whether a stage changed it."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _stages(directory: Path) -> list[Corpus]:
    if is_corpus(directory) and _has_stage(directory):
        return [open_corpus(directory)]
    inside = [directory / name for name in sorted(remote.names(directory))]
    found = [open_corpus(path) for path in inside if is_corpus(path) and _has_stage(path)]
    if not found:
        raise DataError(
            f"{remote.shown(directory)} has no finished stage on documents: no manifest.json "
            "there names one"
        )
    return found


def _has_stage(directory: Path) -> bool:
    """False beside rows of fine-tuning and tokens, whose manifests are of no stage on documents."""
    return "stage" in read_json(remote.fetched(directory / MANIFEST))


def _word(document_id: str, corpus: Corpus) -> StageWord:
    dropped = None
    if corpus.shards:
        shard = corpus.shards[shard_of(document_id, len(corpus.shards))]
        path = remote.fetched(corpus.directory / DROPPED / shard.name)
        found = read_table(path) if path.is_file() else iter(())
        dropped = next((row for row in found if row["id"] == document_id), None)
    kept = None if dropped or not corpus.shards else corpus.find(document_id)
    tables = {
        name.removesuffix(".parquet"): rows
        for name in sorted(remote.names(corpus.directory))
        if name.endswith(".parquet")
        and (rows := _rows_of(document_id, remote.fetched(corpus.directory / name)))
    }
    return StageWord(corpus.manifest.stage, corpus.directory, kept, dropped, tables)


def _rows_of(document_id: str, path: Path) -> list[dict[str, Any]]:
    with open_parquet(path) as file:
        if "id" not in file.schema_arrow.names:
            return []
    table = pq.read_table(path, filters=pc.field("id") == document_id)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
