"""The keys that a recipe may have, and what becomes of one that it may not."""

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from dph._base.import_path import is_import_path
from dph.errors import SettingsError
from dph.recipe.aliases import SHORTHAND, meant_key
from dph.recipe.data import SetSettings
from dph.recipe.objective import (
    AdvantageSettings,
    AnchorSettings,
    PenaltySettings,
    SurrogateSettings,
    TermSettings,
)
from dph.recipe.schema import Recipe
from dph.recipe.section import Section, flat, section_in

NAMED_TABLES: Mapping[str, type[Section]] = MappingProxyType(
    {
        "data.sets": SetSettings,
        "objective.penalties": PenaltySettings,
        "objective.anchors": AnchorSettings,
    }
)
"""Settings that are tables by a name of the user's choice."""
SELECTORS = ("kind", "divergence")
USUAL_KINDS = [
    section.model_fields["kind"].default
    for section in (AdvantageSettings, SurrogateSettings, PenaltySettings)
]
"""Kind of a term whose table does not say it."""
FIELDS_OF_ALL_TERMS = {*PenaltySettings.model_fields, *AnchorSettings.model_fields}


def known_keys(section: type[Section] = Recipe, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every dotted key with its meaning; ``*`` stands for a name of the user's choice."""
    for name, field in section.model_fields.items():
        key, inner = f"{prefix}{name}", section_in(field.annotation)
        if key in NAMED_TABLES:
            yield from known_keys(NAMED_TABLES[key], f"{key}.*.")
        elif inner is not None:
            yield from known_keys(inner, f"{key}.")
        else:
            yield key, field.description or ""
    if issubclass(section, TermSettings):
        for name, (meaning, _) in term_parameters(section).items():
            yield f"{prefix}{name}", meaning


def term_parameters(
    section: type[TermSettings], chosen: str | None = None
) -> dict[str, tuple[str, Any]]:
    """Meaning and default of every parameter that ``chosen`` takes, or that any term takes.

    Where terms share a name, the default is that of the first, and the meaning tells the others.
    """
    of_terms = {
        term: row.parameters.model_fields
        for term, row in section.table.items()
        if chosen in (None, term)
    }
    found: dict[str, tuple[str, Any]] = {}
    for name in dict.fromkeys(name for own in of_terms.values() for name in own):
        fields = {term: own[name] for term, own in of_terms.items() if name in own}
        first = next(iter(fields.values())).default
        meanings: dict[str, list[str]] = {}
        for term, field in fields.items():
            other = "" if field.default == first else f" (default {field.default})"
            meanings.setdefault(f"{field.description}{other}", []).append(term)
        said = [f"{what} ({section.selector} {', '.join(of)})" for what, of in meanings.items()]
        found[name] = ("; ".join(said), first)
    return found


def refuse_unknown_keys(table: Mapping[str, Any]) -> None:
    """Refuse keys that no setting has, all at once, and name the nearest one of each."""
    if refused := list(_refused_keys(table)):
        raise SettingsError("; ".join(refused))


def _refused_keys(table: Mapping[str, Any]) -> Iterator[str]:
    known = [key for key, _ in known_keys()]
    short = [f"objective.{name}" for name in SHORTHAND]
    sections = {key.rsplit(".", 1)[0] for key in known if "." in key}
    for key, value in flat(table):
        pattern = pattern_of(key)
        if pattern in known or _is_own_parameter(table, key):
            continue
        if value is None and pattern in sections:
            continue  # a table that is left out, as records are dumped
        if pattern in sections or pattern in NAMED_TABLES:
            yield f"{key} is a table of settings, got {value!r}"
            continue
        meant = meant_key(key, [*known, *short])
        near = [meant] if meant else difflib.get_close_matches(pattern, [*known, *short], n=1)
        near = near or [k for k in known if k.rsplit(".", 1)[-1] == key.rsplit(".", 1)[-1]]
        hint = f"; did you mean {near[0]}?" if near else "; `dph recipe show` lists the known ones"
        yield f"unknown setting {key}{hint}"


def pattern_of(key: str) -> str:
    """``data.sets.dev.path`` -> ``data.sets.*.path``; a bare path is the same key.

    So is a column of ``only``, a field of ``columns`` and a variable of ``template``, whose names
    are anyone's: ``self_consistency.only.part`` -> ``self_consistency.only``.
    """
    parts = key.split(".")
    named = next((n for n in (parts[0], ".".join(parts[:2])) if n in NAMED_TABLES), None)
    if named is not None and len(parts) > (depth := named.count(".") + 1):
        rest = parts[depth + 1 :] or (["path"] if named == "data.sets" else [])
        parts = [named, "*", *rest]
    if len(parts) > 2 and parts[-2] in ("only", "columns", "template"):
        parts = parts[:-1]
    return ".".join(parts)


def _is_own_parameter(table: Mapping[str, Any], key: str) -> bool:
    """Whether ``key`` belongs to a term that the user brought: its parameters are its own."""
    *parents, _ = key.split(".")
    section: Any = table
    for parent in parents:
        section = section.get(parent, {}) if isinstance(section, Mapping) else {}
    chosen = [section.get(name) for name in SELECTORS] if isinstance(section, Mapping) else []
    return key.startswith("objective.") and any(
        isinstance(name, str) and is_import_path(name) for name in chosen
    )
