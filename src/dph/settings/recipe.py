"""Reading a recipe: TOML file, then the method's settings under it, then ``--set`` over it."""

import difflib
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel, ValidationError

from dph.errors import SettingsError
from dph.files import write_text
from dph.settings.data import SetSettings
from dph.settings.methods import METHODS
from dph.settings.names_elsewhere import meant_key
from dph.settings.places import (
    OWN_CODE,
    PATH_KEYS,
    place_own_code,
    spell_out_sets,
    start_paths_at,
)
from dph.settings.schema import Recipe
from dph.settings.section import Section


def load_recipe(path: Path, *, overrides: Sequence[str] = (), seed: int | None = None) -> Recipe:
    """Read, override, expand and validate a recipe.

    ``overrides`` are ``a.b=c`` with c in TOML (a bare word is a string). Relative paths in the
    file start at the file's directory; those in overrides start at the working directory. The
    user's own modules are found beside the file, and ``data.modules`` says where.

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
    beside = path.resolve().parent
    spell_out_sets(table)
    start_paths_at(table, beside)
    for override in overrides:
        _apply_override(table, override)
    if seed is not None:
        table["seed"] = seed
    place_own_code(table, beside=beside, overridden=any(map(_names_own_code, overrides)))
    return resolve_recipe(table)


def resolve_recipe(table: Mapping[str, Any]) -> Recipe:
    """Expand the method and validate; ``table`` is nested as in TOML.

    Raises:
        SettingsError: as for load_recipe.
    """
    _refuse_unknown_keys(table)
    method = table.get("method", Recipe.model_fields["method"].default)
    expanded = _merge(METHODS.get(method, {}) if isinstance(method, str) else {}, table)
    try:
        return Recipe.model_validate(expanded)
    except ValidationError as error:
        raise SettingsError("; ".join(_messages(error))) from error


def recipe_toml(recipe: Recipe) -> str:
    """The resolved recipe as TOML; reading it back anywhere gives the same settings.

    Paths and the places of the user's own modules are absolute in it.
    """
    return tomli_w.dumps(_placed(recipe))


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
    old, new = (dict(_flat(_placed(recipe))) for recipe in (before, after))
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
        if key == "data.sets":
            yield from _keys(SetSettings, "data.sets.*.")
        elif isinstance(annotation, type) and issubclass(annotation, Section):
            yield from _keys(annotation, f"{key}.")
        else:
            yield key, field.description or ""


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _pattern(key: str) -> str:
    """``data.sets.dev.path`` -> ``data.sets.*.path``; a bare path is the same key."""
    parts = key.split(".")
    if parts[:2] != ["data", "sets"] or len(parts) < 3:
        return key
    return ".".join(["data", "sets", "*", *(parts[3:] or ["path"])])


def _refuse_unknown_keys(table: Mapping[str, Any]) -> None:
    known = [key for key, _ in known_keys()]
    sections = {key.rsplit(".", 1)[0] for key in known if "." in key}
    for key, value in _flat(table):
        pattern = _pattern(key)
        if pattern in known:
            continue
        if pattern in sections or pattern == "data.sets":
            raise SettingsError(f"{key} is a table of settings, got {value!r}")
        meant = meant_key(key, known)
        near = [meant] if meant else difflib.get_close_matches(pattern, known, n=1, cutoff=0.5)
        near = near or [k for k in known if k.rsplit(".", 1)[-1] == key.rsplit(".", 1)[-1]]
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
    spell_out_sets(table)
    if _pattern(key.strip()) in (*PATH_KEYS, "data.sets.*.path"):
        start_paths_at(table, Path.cwd())


def _names_own_code(override: str) -> bool:
    return override.partition("=")[0].strip().rpartition(".")[2] in OWN_CODE


def _placed(recipe: Recipe) -> dict[str, Any]:
    """A recipe's settings, without those that are not set, valid from every directory."""
    table = recipe.model_dump(mode="json", exclude_none=True)
    start_paths_at(table, Path.cwd())
    place_own_code(table, beside=Path.cwd(), overridden=False)
    return table


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[name] = _merge(below, value) if both else value  # type: ignore[arg-type]
    return merged


def _messages(error: ValidationError) -> Iterator[str]:
    items = error.errors(include_url=False)
    inside = {item["loc"][:-1] for item in items}
    for item in items:
        # A list of which an element is wrong is reported a second time, as too short.
        if item["type"] == "too_short" and item["loc"] in inside:
            continue
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] == "missing":
            yield f"the recipe needs {key}" + _meaning(key)
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
