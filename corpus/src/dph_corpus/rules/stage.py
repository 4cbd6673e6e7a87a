"""Filtering as a stage of a corpus: a document is kept unless a rule drops it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph._base.files import sha256
from dph_corpus.documents import DocType, Document, language_of, language_of_path
from dph_corpus.rules.own import SUFFIX, fingerprints, open_preset
from dph_corpus.rules.presets import Judgement, judge
from dph_corpus.shards import digest
from dph_corpus.signals.view import FileView
from dph_corpus.stage import DocumentOutcome, Drop, StageSpec
from dph_corpus.tables import schema_of

VERDICTS = schema_of("verdicts")
"""A row for each rule that applies to a document's ``kind`` (``presets.KINDS``); ``fires`` is the
condition without the coin of thinned rules, ``drops`` with it."""
SIGNALS = schema_of("signals")
"""Every signal of every document, those without a threshold among them."""


_SECONDS = 300.0
"""For one document. Lexers and parsers take up to a minute for the largest."""


def filter_spec(preset: str, thresholds: Mapping[str, str] | None = None) -> StageSpec:
    """The stage that filters by the rules of ``preset``, with user-defined ``thresholds``.

    Args:
        preset: a name, or the path of a file of rules (``dph_corpus.rules.own``), which counts by
            its content and the code of its signals.
        thresholds: conditions in the place of the preset's.
    """
    found = open_preset(preset, thresholds)
    settings = {"preset": found.name} | ({"thresholds": dict(thresholds)} if thresholds else {})
    entry, inputs, files = "dph_corpus.rules.stage:FilterStage", {}, {}
    if preset.endswith(SUFFIX):
        place = Path(preset).resolve()
        inputs = {"preset": sha256(place), "signals": digest(fingerprints(found))}
        files = {"preset": str(place)}
    return StageSpec(
        name="filter",
        entry=entry,
        settings=settings,
        version=2,
        inputs=inputs,
        files=files,
        seconds=_SECONDS,
    )


class FilterStage:
    """Applies a preset to documents.

    Settings are a ``preset``, ``thresholds`` (``with_thresholds``), or a preset among ``files``.
    """

    tables: Mapping[str, pa.Schema] = {"verdicts": VERDICTS, "signals": SIGNALS}

    def __init__(self, settings: Mapping[str, Any]) -> None:
        preset = settings.get("files", {}).get("preset", settings["preset"])
        self._preset = open_preset(preset, settings.get("thresholds", {}))

    def judgement(self, document: Document) -> Judgement:
        """Judgement of the preset on ``document``."""
        if self._preset.released_names:
            document = _as_released(document)
        view = FileView(
            document.text,
            path=document.path,
            bytes=document.bytes,
            language=document.language,
            natural_language=document.natural_language or "en",
        )
        return judge(self._preset, view, document_id=document.id, doc_type=document.doc_type.value)

    def __call__(self, document: Document) -> DocumentOutcome:
        """Keep ``document``, or drop it for all rules that say so."""
        found = self.judgement(document)
        if found.kind is None:
            return DocumentOutcome(
                None, [Drop("doc_type", note=f"no rule reads {document.doc_type}")]
            )
        named = VERDICTS.names[2:]
        verdicts = [
            {"id": document.id, "kind": found.kind}
            | {name: getattr(verdict, name) for name in named}
            for verdict in found.verdicts
        ]
        signals = [
            {"id": document.id, "signal": name, "value": value}
            for name, value in found.values.items()
        ]
        drops = [Drop(v.rule, value=v.value, threshold=v.threshold) for v in found.dropping]
        return DocumentOutcome(
            None if drops else document,
            drops,
            rows={"verdicts": verdicts, "signals": signals},
            counts={f"no value: {name}": 1 for name in found.failures},
        )


def _as_released(document: Document) -> Document:
    """``document`` with the language that the released filter's example gives it.

    That looks a file up by its name without the extension first, so CMakeLists.txt is text. A
    language that came with the document and is not the one its path says stays.
    """
    named = language_of_path(document.path)
    if (document.language, document.doc_type) != (named.name, named.doc_type):
        return document
    name = document.path.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    language = language_of(stem, extension) if dot and stem else language_of(name, "")
    doc_type = language.doc_type if language.name else DocType.UNKNOWN
    return replace(document, language=language.name, doc_type=doc_type)
