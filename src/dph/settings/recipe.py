"""Reading a recipe: TOML file, then the method's settings under it, then ``--set`` over it."""

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, ValidationError

from dph.errors import SettingsError
from dph.files import write_text
from dph.import_path import is_import_path
from dph.settings.data import SetSettings
from dph.settings.methods import METHODS
from dph.settings.objective import AnchorSettings, PenaltySettings, TermSettings
from dph.settings.objective_shorthand import SHORTHAND, expand_shorthand
from dph.settings.schema import Recipe
from dph.settings.section import Section

NAMED_TABLES: Mapping[str, type[Section]] = MappingProxyType(
    {
        "data.sets": SetSettings,
        "objective.penalties": PenaltySettings,
        "objective.anchors": AnchorSettings,
    }
)
"""Settings that are tables by a name of the user's choice."""
_SELECTORS = ("kind", "divergence")
_FIELDS_OF_ALL_TERMS = {*PenaltySettings.model_fields, *AnchorSettings.model_fields}

PATH_KEYS = ("data.train", "data.databases", "presample.pool", "model.path")


def load_recipe(path: Path, *, overrides: Sequence[str] = (), seed: int | None = None) -> Recipe:
    """Read, override, expand and validate a recipe.

    ``overrides`` are ``a.b=c`` with c in TOML (a bare word is a string). Relative paths in the
    file start at the file's directory; those in overrides start at the working directory.

    Raises:
        SettingsError: the file is missing or not TOML, a key is unknown (the nearest known one
            is named), or a value has the wrong type or is out of range.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the recipe {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    _start_paths_at(table, path.resolve().parent)
    for override in overrides:
        _apply_override(table, override)
    if seed is not None:
        table["seed"] = seed
    return resolve_recipe(table)


def resolve_recipe(table: Mapping[str, Any]) -> Recipe:
    """Expand the method and validate; ``table`` is nested as in TOML.

    Raises:
        SettingsError: as for load_recipe.
    """
    table = _with_terms(table)
    _refuse_unknown_keys(table)
    method = table.get("method", Recipe.model_fields["method"].default)
    expanded = merged(METHODS.get(method, {}) if isinstance(method, str) else {}, table)
    try:
        return Recipe.model_validate(expanded)
    except ValidationError as error:
        raise SettingsError("; ".join(messages(error))) from error


def recipe_toml(recipe: Recipe) -> str:
    """The resolved recipe as TOML; reading it back gives the same recipe."""
    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True))


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write the resolved recipe, atomically."""
    write_text(path, recipe_toml(recipe))


def recipe_digest(*sections: BaseModel | Mapping[str, Any] | str | int) -> str:
    """A short hash that changes when any of ``sections`` does."""
    plain = [s.model_dump(mode="json") if isinstance(s, BaseModel) else s for s in sections]
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def changed_settings(before: Recipe, after: Recipe) -> dict[str, str]:
    """``was x, now y`` for every dotted key whose value differs."""
    old, new = (dict(_flat(recipe.model_dump(mode="json"))) for recipe in (before, after))
    return {
        key: f"was {old.get(key)!r}, now {new.get(key)!r}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    }


def known_keys() -> Iterator[tuple[str, str]]:
    """Every dotted key with its meaning; ``*`` stands for the name of an evaluation set."""
    yield from _keys(Recipe, "")


def _keys(section: type[Section], prefix: str) -> Iterator[tuple[str, str]]:
    for name, field in section.model_fields.items():
        key, annotation = f"{prefix}{name}", field.annotation
        if key in NAMED_TABLES:
            yield from _keys(NAMED_TABLES[key], f"{key}.*.")
        elif isinstance(annotation, type) and issubclass(annotation, Section):
            yield from _keys(annotation, f"{key}.")
        else:
            yield key, field.description or ""
    if issubclass(section, TermSettings):
        for name, (meaning, _) in term_parameters(section).items():
            yield f"{prefix}{name}", meaning


def term_parameters(section: type[TermSettings]) -> dict[str, tuple[str, Any]]:
    """Meaning and default of every parameter that a term of this table takes."""
    return {
        name: (f"{field.description} ({section.selector} {term})", field.default)
        for term, row in section.table.items()
        for name, field in row.parameters.model_fields.items()
    }


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _pattern(key: str) -> str:
    """``data.sets.dev.path`` -> ``data.sets.*.path``; a bare path is the same key."""
    parts = key.split(".")
    named = ".".join(parts[:2])
    if named not in NAMED_TABLES or len(parts) < 3:
        return key
    rest = parts[3:] or (["path"] if named == "data.sets" else [])
    return ".".join([named, "*", *rest])


def _is_own_parameter(table: Mapping[str, Any], key: str) -> bool:
    """Whether ``key`` belongs to a term that the user brought: its parameters are its own."""
    *parents, _ = key.split(".")
    section: Any = table
    for parent in parents:
        section = section.get(parent, {}) if isinstance(section, Mapping) else {}
    chosen = [section.get(name) for name in _SELECTORS] if isinstance(section, Mapping) else []
    return key.startswith("objective.") and any(
        isinstance(name, str) and is_import_path(name) for name in chosen
    )


def _refuse_unknown_keys(table: Mapping[str, Any]) -> None:
    known = [key for key, _ in known_keys()]
    short = [f"objective.{name}" for name in SHORTHAND]
    sections = {key.rsplit(".", 1)[0] for key in known if "." in key}
    for key, value in _flat(table):
        pattern = _pattern(key)
        if pattern in known or _is_own_parameter(table, key):
            continue
        if pattern in sections or pattern in NAMED_TABLES:
            raise SettingsError(f"{key} is a table of settings, got {value!r}")
        near = difflib.get_close_matches(pattern, [*known, *short], n=1, cutoff=0.5) or [
            k for k in known if k.rsplit(".", 1)[-1] == key.rsplit(".", 1)[-1]
        ]
        hint = f"; did you mean {near[0]}?" if near else "; `dph recipe show` lists the known ones"
        raise SettingsError(f"unknown setting {key}{hint}")


def _apply_override(table: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise SettingsError(f"an override has the form key=value, got {override!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *parents, name = key.strip().split(".")
    section = table
    for parent in parents:
        section = section.setdefault(parent, {})
        if not isinstance(section, dict):
            raise SettingsError(f"unknown setting {key.strip()}: {parent} is not a table")
    section[name] = value
    if _pattern(key.strip()) in (*PATH_KEYS, "data.sets.*.path"):
        _start_paths_at(table, Path.cwd())


def _start_paths_at(table: dict[str, Any], directory: Path) -> None:
    """Make relative paths absolute; a model name that is no directory there is left as it is."""
    for key in PATH_KEYS:
        section, name = key.split(".")
        values = table.get(section)
        if isinstance(values, dict) and isinstance(values.get(name), str):
            full = directory / values[name]
            if key != "model.path" or full.exists():
                values[name] = str(full)
    sets = table.get("data", {})
    sets = sets.get("sets") if isinstance(sets, dict) else None
    if not isinstance(sets, dict):
        return
    for name, value in sets.items():
        if isinstance(value, str):
            sets[name] = str(directory / value)
        elif isinstance(value, dict) and isinstance(value.get("path"), str):
            value["path"] = str(directory / value["path"])


def _with_terms(table: Mapping[str, Any]) -> Mapping[str, Any]:
    objective = table.get("objective")
    if not isinstance(objective, Mapping):
        return table
    try:
        return {**table, "objective": expand_shorthand(objective)}
    except ValueError as error:
        raise SettingsError(f"objective: {error}") from error


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid upon ``under``, table by table; where another term is chosen, it alone."""
    result: dict[str, Any] = dict(under)
    if any(under.get(name) != over.get(name, under.get(name)) for name in _SELECTORS):
        # Another term was chosen: what the method set of its own one does not fit it.
        result = {name: value for name, value in under.items() if name in _FIELDS_OF_ALL_TERMS}
    for name, value in over.items():
        below = result.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[name] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result


def messages(error: ValidationError) -> Iterator[str]:
    """What is wrong, one setting at a time, each with its key and its value."""
    items = error.errors(include_url=False)
    inside = {item["loc"][:-1] for item in items}
    for item in items:
        # A list of which an element is wrong is reported a second time, as too short.
        if item["type"] == "too_short" and item["loc"] in inside:
            continue
        key = ".".join(str(part) for part in item["loc"])
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, ValidationError):  # of a term's own parameters
            yield from (f"{key}.{message}" for message in messages(cause))
            continue
        if item["type"] == "missing":
            yield f"the recipe needs {key}" + _meaning(_pattern(key))
            continue
        message = item["msg"].removeprefix("Value error, ")
        message = _IN_TOML.get(item["type"], message)
        own = item["type"] == "value_error"
        yield f"{key}: {message}" if own or not key else f"{key}: {message}, got {item['input']!r}"


_IN_TOML = {
    "tuple_type": "Input should be a list",
    "model_type": "Input should be a table",
    "dict_type": "Input should be a table",
}
"""What TOML calls them."""


def _meaning(key: str) -> str:
    meanings = dict(known_keys())
    if key in meanings:
        return f" ({meanings[key]})"
    field = Recipe.model_fields.get(key)
    section = field.annotation if field else None
    if isinstance(section, type) and issubclass(section, Section):
        required = [f"{key}.{n}" for n, f in section.model_fields.items() if f.is_required()]
        return f" ({', '.join(required)})"
    return ""


assert get_args(Recipe.model_fields["method"].annotation) == tuple(METHODS)
