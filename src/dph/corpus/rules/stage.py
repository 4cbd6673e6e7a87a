"""Filtering as a stage of a corpus: a document is kept unless a rule drops it."""

import difflib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dph.corpus.documents import DocType, Document, language_of, language_of_path
from dph.corpus.rules.presets import (
    KINDS,
    Condition,
    FilterRule,
    Judgement,
    Preset,
    judge,
    load_preset,
    parse_condition,
)
from dph.corpus.signals import FileView
from dph.corpus.stage import DocumentOutcome, DocumentStage, Drop
from dph.errors import SettingsError

# Thresholds of one's own in the place of a preset's.

_ALL_KINDS = tuple(kind for members in KINDS.values() for kind in members)


def with_thresholds(preset: Preset, thresholds: Mapping[str, str]) -> Preset:
    """A preset whose rules drop files by other conditions.

    Args:
        preset: what stays where nothing is said.
        thresholds: conditions (``"< 2 or > 10"``, or "" to leave the rule out) by ``RULE``, for all
            kinds that it has, or by ``RULE.KIND``, a kind or family of ``KINDS``. A kind wins over
            its family, and that over the rule alone, whatever their order.

    Raises:
        SettingsError: there is no such rule, it does not read such files, or a condition cannot
            be read; the message says what is allowed.
    """
    rules = dict(preset.rules)
    for key in sorted(thresholds, key=_breadth):
        name, _, kind = key.partition(".")
        if name not in preset.rules:
            near = difflib.get_close_matches(name, preset.rules, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SettingsError(
                f"the preset {preset.name} has no rule {name!r}{hint} "
                f"(`dph corpus rules --preset {preset.name}` lists them)"
            )
        rules[name] = _changed(rules[name], preset.rules[name], kind, thresholds[key])
    return replace(preset, rules=rules)


def _breadth(key: str) -> int:
    _, _, kind = key.partition(".")
    return 0 if not kind else 1 if kind in KINDS else 2


def _changed(rule: FilterRule, original: FilterRule, kind: str, text: str) -> FilterRule:
    """``rule`` with a condition for the kinds of ``kind`` that it reads by itself."""
    if kind and kind not in (*KINDS, *_ALL_KINDS):
        raise SettingsError(
            f"a kind of files is one of {', '.join((*KINDS, *_ALL_KINDS))}, got {kind!r}"
        )
    named = KINDS.get(kind, (kind,)) if kind else _ALL_KINDS
    kinds = [each for each in named if each in original.conditions]
    if not kinds:
        raise SettingsError(
            f"the rule {rule.name} does not read {kind}: {', '.join(original.conditions)}"
        )
    conditions: dict[str, Condition] = dict(rule.conditions)
    for each in kinds:
        if text.strip():
            conditions[each] = _condition(rule.name, text.strip())
        else:
            conditions.pop(each, None)
    return replace(rule, conditions=conditions)


def _condition(name: str, text: str) -> Condition:
    try:
        return parse_condition(text)
    except ValueError as error:
        raise SettingsError(
            f"the threshold of {name} must be a comparison such as '> 0.5' or '< 2 or > 10', or "
            f"'' to disable the rule; got {text!r}"
        ) from error


VERDICTS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "rule")),
        ("value", pa.float64()),
        ("threshold", pa.string()),
        *((name, pa.bool_()) for name in ("fires", "thinned", "drops")),
    ]
)
"""A row for each rule that applies to a document's kind; ``fires`` is the condition without the
coin of thinned rules, ``drops`` with it."""
SIGNALS = pa.schema([("id", pa.string()), ("signal", pa.string()), ("value", pa.float64())])
"""Every signal of every document, those without a threshold among them."""


def make_filter(settings: Mapping[str, Any]) -> DocumentStage:
    """The stage, of ``settings`` with a ``preset`` and, where they are, ``thresholds``."""
    return FilterStage(settings["preset"], settings.get("thresholds", {}))


class FilterStage:
    """Applies a preset to documents, with user-defined thresholds (``with_thresholds``)."""

    def __init__(self, preset: str, thresholds: Mapping[str, str] = MappingProxyType({})) -> None:
        self._preset = with_thresholds(load_preset(preset), thresholds)

    @property
    def tables(self) -> Mapping[str, pa.Schema]:
        """Verdicts and signals of every document."""
        return {"verdicts": VERDICTS, "signals": SIGNALS}

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
        named = VERDICTS.names[1:]
        verdicts = [
            {"id": document.id} | {name: getattr(verdict, name) for name in named}
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
