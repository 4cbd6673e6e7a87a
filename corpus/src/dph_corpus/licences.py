"""Documents by their licence: what their SPDX expression allows, by the kinds of licences it names.

An expression is read by ``license-expression``, whose index names the kind of each licence
(``permissive``, ``copyleft``, ...). What packages write instead of SPDX is taken where it can mean
one licence alone ("MIT License"); "BSD" can mean several, so who wants it says which (``aliases``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from dph.errors import SettingsError
from dph_corpus.documents import Document
from dph_corpus.packaged import packaged
from dph_corpus.stage import DocumentOutcome, Drop, StageSpec

UNSTATED, UNKNOWN, LICENCE = "unstated", "unknown", "licence"
"""Reasons: no licence is stated, what is stated is not one, or it is not allowed."""
_LONGEST = 300
"""Characters of an expression; a longer text is not read."""
ALIASES = packaged("licences.toml", dict[str, str])
"""Names that can mean one licence alone, in lower case."""


def licence_spec(
    allow: Sequence[str], aliases: Mapping[str, str], *, keep_unstated: bool = False
) -> StageSpec:
    """The stage that keeps documents of allowed licences.

    Args:
        allow: kinds of licences (``permissive``, ``public-domain``, ...) or SPDX identifiers.
        aliases: what the documents' texts stand for, in addition to ``ALIASES``.
        keep_unstated: keep documents that state no licence.
    """
    if not allow:
        raise SettingsError("allow must name at least one kind of licence or SPDX identifier")
    if wrong := [name for name in allow if name not in kinds() and name not in known_licences()]:
        raise SettingsError(
            f"{wrong[0]!r} is not an SPDX identifier, nor one of the kinds {', '.join(kinds())}"
        )
    for text, expression in aliases.items():
        if _parsed(expression) is None:
            raise SettingsError(f"{text}={expression}: {expression!r} is not an SPDX expression")
    settings = {
        "allow": sorted({name if name in kinds() else _parsed(name).key for name in allow}),
        "aliases": {text.lower(): value for text, value in sorted(aliases.items())},
        "keep_unstated": keep_unstated,
    }
    return StageSpec(name="licences", entry="dph_corpus.licences:LicenceStage", settings=settings)


class LicenceStage:
    """Keeps documents whose licence is allowed, as an SPDX expression (``licence_spec``)."""

    tables: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._allowed = frozenset(settings["allow"])
        self._aliases = ALIASES | settings["aliases"]
        self._keep_unstated = settings["keep_unstated"]

    def __call__(self, document: Document) -> DocumentOutcome:
        """The document, or why it goes; licences are counted by their expressions."""
        stated = " ".join(document.licence.split())
        if not stated:
            kept = document if self._keep_unstated else None
            return DocumentOutcome(kept, () if kept else [Drop(UNSTATED)], counts={"no licence": 1})
        expression = _parsed(self._aliases.get(stated.lower(), stated))
        if expression is None:
            shown = stated[:_LONGEST]
            return DocumentOutcome(None, [Drop(UNKNOWN, note=shown)], counts={"not SPDX": 1})
        rendered = expression.render()
        if not is_allowed(expression, self._allowed):
            drop = Drop(LICENCE, threshold=", ".join(sorted(self._allowed)), note=rendered)
            return DocumentOutcome(None, [drop], counts={rendered: 1})
        return DocumentOutcome(replace(document, licence=rendered), counts={rendered: 1})


def is_allowed(expression: Any, allowed: frozenset[str]) -> bool:
    """True where allowed licences alone can meet the expression.

    Of alternatives one suffices, of a conjunction all count; an exception only adds permissions, so
    the licence that it belongs to decides.
    """
    parts = getattr(expression, "args", ())
    if parts:
        some = any if type(expression).__name__ == "OR" else all
        return some(is_allowed(part, allowed) for part in parts)
    licence = getattr(expression, "license_symbol", expression)
    return licence.key in allowed or known_licences()[licence.key] in allowed


def kinds() -> list[str]:
    """Kinds of licences, by the index of license-expression, as they are written in options."""
    return sorted(set(known_licences().values()))


@cache
def known_licences() -> Mapping[str, str]:
    """The kind of each licence by its SPDX identifier; deprecated identifiers too."""
    index = import_module("license_expression").get_license_index()
    return {
        key: row["category"].lower().replace(" ", "-")
        for row in index
        if not row["is_exception"]
        for key in (row["spdx_license_key"], *row["other_spdx_license_keys"])
        if key
    }


@cache
def _licensing() -> Any:
    return import_module("license_expression").get_spdx_licensing()


def _parsed(text: str) -> Any:
    """The expression; None if it is not one, or names what is not an SPDX licence."""
    if len(text) > _LONGEST:
        return None
    errors = import_module("license_expression")
    try:
        found = _licensing().parse(text)
    except (
        errors.ExpressionError,
        errors.ExpressionParseError,
        AssertionError,
        RecursionError,
        IndexError,
    ):
        return None  # IndexError: "()"
    if found is None:
        return None
    symbols = list(_licensing().license_symbols(found, unique=True, decompose=False))
    licences = [str(getattr(s, "license_symbol", s).key) for s in symbols]
    exceptions = [s.exception_symbol for s in symbols if hasattr(s, "exception_symbol")]
    known = all(key in known_licences() for key in licences)
    return found if known and all(each.is_exception for each in exceptions) else None
