"""Transforming as a stage of a corpus: every document stays, with a cleaned text."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dph.corpus.documents import Document
from dph.corpus.extra import FINDING, require
from dph.corpus.stage import DocumentStage, Outcome, StageSpec
from dph.corpus.transform.cleaning import clean

CHANGES = pa.schema([("id", pa.string()), ("kind", pa.string()), ("count", pa.int64())])
"""A row for each kind of thing that was taken out of a document."""


def transform_spec() -> StageSpec:
    """The stage that cleans texts.

    Raises:
        SettingsError: the extra ``corpus`` is not installed.
    """
    require(FINDING, "transform")
    return StageSpec(
        name="transform", entry="dph.corpus.transform.stage:make_transform", settings={}
    )


def make_transform(_settings: Mapping[str, Any]) -> DocumentStage:
    """The stage; it has no settings."""
    return TransformStage()


class TransformStage:
    """Cleans documents."""

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """What was taken out of which document."""
        return {"changes": CHANGES}

    def __call__(self, document: Document) -> Outcome:
        """The document with a cleaned text."""
        cleaned = clean(document.text, document.language)
        if cleaned.text != document.text:
            document = document.with_text(cleaned.text)
        rows = [
            {"id": document.id, "kind": kind, "count": count}
            for kind, count in sorted(cleaned.counts.items())
        ]
        changed = {"documents changed": 1} if rows else {}
        return Outcome(document, rows={"changes": rows}, counts={**cleaned.counts, **changed})
