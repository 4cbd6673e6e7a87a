"""Reading a recipe: TOML file, then the method's settings under it, then ``--set`` over it."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError

from dph._base.files import atomic_path, make_directory, write_text
from dph.errors import DataError, SettingsError
from dph.recipe.engines import require_engine_can
from dph.recipe.keys import (
    FIELDS_OF_ALL_TERMS,
    SELECTORS,
    USUAL_KINDS,
    known_keys,
    pattern_of,
    refuse_unknown_keys,
    without_departed,
)
from dph.recipe.methods import METHODS
from dph.recipe.objective import expand_shorthand
from dph.recipe.places import OWN_CODE, PLACES, place_own_code, spell_out_sets, start_paths_at
from dph.recipe.schema import Recipe
from dph.recipe.section import faults_of, flat, put, read_override, read_table, section_in

_PACKAGE = Path(__file__).parents[1]
RECIPE_PLACES = (_PACKAGE / "shipped_recipes", _PACKAGE.parents[1] / "recipes")
"""In a wheel, and in a checkout or an unpacked source distribution."""
ELSEWHERE = ("base", "sft", "cookbook")
"""Kinds of recipes of the package dph-corpus."""


def shipped_recipes(places: Sequence[Path] = RECIPE_PLACES) -> dict[str, str]:
    """First line of each recipe in the first of ``places`` that exists, by its path, sorted."""
    place, found = _place(places), {}
    for path in sorted(place.rglob("*.toml")):
        line = path.read_text(encoding="utf-8").partition("\n")[0]
        summary = line.removeprefix("#").strip() if line.startswith("#") else ""
        found[path.relative_to(place).with_suffix("").as_posix()] = summary
    return found


def copy_recipe(
    name: str, out: Path | None = None, places: Sequence[Path] = RECIPE_PLACES
) -> list[Path]:
    """Copy a recipe, or a folder of them with all files in it; the recipes that were written.

    ``out`` must not exist [default: the recipe's own last name, here].
    """
    place = _place(places)
    known: dict[str, Path] = {}
    for recipe in shipped_recipes(places):
        known[recipe] = path = place / f"{recipe}.toml"
        if path.parent != place:
            known[path.parent.relative_to(place).as_posix()] = path.parent
    source = known.get(name.removesuffix(".toml").strip("/"))
    if source is None:
        raise SettingsError(f"there is no recipe {name!r}; there are: {', '.join(sorted(known))}")
    for path in () if source.is_dir() else source.parent.glob("*"):
        if path.suffix in (".py", ".jsonl") and path.stem in source.read_text(encoding="utf-8"):
            folder = source.parent.relative_to(place).as_posix()
            raise SettingsError(f"{name} needs {path.name} next to it: copy {folder!r}, its folder")
    out = Path(source.name) if out is None else out
    if out.exists():
        raise SettingsError(f"{out} already exists: name another place (--out)")
    make_directory(out.absolute().parent)
    with atomic_path(out) as temporary:
        if source.is_dir():
            left_out = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(source, temporary, ignore=left_out)
        else:
            shutil.copyfile(source, temporary)
    return sorted(out.rglob("*.toml")) if out.is_dir() else [out]


def _place(places: Sequence[Path]) -> Path:
    for place in places:
        if place.is_dir():
            return place
    raise DataError(f"this installation has no recipes: {places[0]} is missing")


def load_recipe(
    path: str | Path, *, overrides: Sequence[str] = (), seed: int | None = None
) -> Recipe:
    """Read, override, expand and validate a recipe.

    ``overrides`` are ``a.b=c`` with c in TOML (a bare word is a string). Relative paths in the
    file start at the file's directory; those in overrides start at the working directory. The
    user's own modules are found next to the file, and ``data.modules`` has their directories.

    Raises:
        SettingsError: the file is missing or not TOML, keys are unknown (the nearest known ones
            are named), or a value has the wrong type or is out of range.
    """
    path = Path(path)
    beside, table = path.resolve().parent, read_table(path)
    if (kind := table.get("kind")) in ELSEWHERE:
        raise SettingsError(f'{path} has kind = "{kind}": it is a recipe of dph-corpus')
    return recipe_of(table, beside=beside, overrides=overrides, seed=seed)


def recipe_of(
    table: dict[str, Any], *, beside: Path, overrides: Sequence[str] = (), seed: int | None = None
) -> Recipe:
    """``load_recipe`` of a table that is, or would be, in a file in ``beside``."""
    spell_out_sets(table)
    start_paths_at(table, beside)
    read = [read_override(text) for text in overrides]
    table = _overridden(table, read)
    if seed is not None:
        table["seed"] = seed
    overridden = any(k == "environment.path" or k.rpartition(".")[2] in OWN_CODE for k, _ in read)
    place_own_code(table, beside=beside, overridden=overridden)
    return resolve_recipe(table)


def resolve_recipe(table: Mapping[str, Any]) -> Recipe:
    """Expand the method and validate, as ``load_recipe`` does; ``table`` is nested as in TOML."""
    table = without_departed(_with_terms(table))
    spell_out_sets(table)
    refuse_unknown_keys(table)
    try:
        recipe = Recipe.model_validate(_with_method(table))
    except ValidationError as error:
        raise SettingsError("; ".join(messages(error))) from error
    require_engine_can(recipe)
    return recipe


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
    old, new = (dict(flat(_placed(recipe))) for recipe in (before, after))
    return {
        key: f"was {old.get(key)!r}, now {new.get(key)!r}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    }


def _overridden(table: dict[str, Any], overrides: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The recipe's table with the overrides in it.

    Values of the objective are laid over the file's as the file's are laid over the method's, so
    that short names and long ones meet, and another term drops the parameters of the one before.
    A key of the file itself, and a whole table, is simply replaced.
    """
    over: dict[str, Any] = {}
    said = objective if isinstance(objective := table.get("objective"), dict) else {}
    for key, value in overrides:
        section, _, name = key.partition(".")
        laid = section == "objective" and name not in said and not isinstance(value, dict)
        target = over if laid else table
        put(target, key, value)
        spell_out_sets(target)
        if pattern_of(key) in PLACES:
            start_paths_at(target, Path.cwd())
    return merged(_with_method(_with_terms(table)), _with_terms(over)) if over else table


def _with_method(table: Mapping[str, Any]) -> dict[str, Any]:
    method = table.get("method", Recipe.model_fields["method"].default)
    return merged(METHODS.get(method, {}) if isinstance(method, str) else {}, table)


def _placed(recipe: Recipe) -> dict[str, Any]:
    """A recipe's settings, without those that are not set, valid from every directory."""
    table = recipe.model_dump(mode="json", exclude_none=True)
    start_paths_at(table, Path.cwd())
    place_own_code(table, beside=Path.cwd(), overridden=False)
    return table


def _with_terms(table: Mapping[str, Any]) -> Mapping[str, Any]:
    objective = table.get("objective")
    if not isinstance(objective, Mapping):
        return table
    try:
        return {**table, "objective": expand_shorthand(objective)}
    except ValueError as error:
        raise SettingsError(f"objective: {error}") from error


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid upon ``under``, table by table; another term drops the old one's parameters."""
    result: dict[str, Any] = dict(under)
    if "kind" in over and "kind" not in under:  # a method's table leaves the usual term unsaid
        another = over["kind"] not in USUAL_KINDS
    else:
        another = any(n in under and under[n] != over.get(n, under[n]) for n in SELECTORS)
    if another:
        result = {name: value for name, value in under.items() if name in FIELDS_OF_ALL_TERMS}
    for name, value in over.items():
        below = result.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[name] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result


def messages(error: ValidationError, within: str = "") -> Iterator[str]:
    """The faults of the table ``within``, each with the key and the value of its setting."""
    for item in faults_of(error):
        key = ".".join(filter(None, (within, *map(str, item["loc"]))))
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, ValidationError):  # of a term's own parameters
            yield from messages(cause, key)
            continue
        if item["type"] == "missing":
            yield f"the recipe needs {key}" + _meaning(pattern_of(key))
            if pattern_of(key) == "objective.anchors.*.divergence":
                yield (
                    "the method rehearses nothing: leave out objective.eta and other settings of "
                    "rehearsal, or choose a method that rehearses"
                )
            continue
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] in ("tuple_type", "model_type", "dict_type"):  # by their names in TOML
            message = f"Input should be a {'list' if item['type'] == 'tuple_type' else 'table'}"
        own = item["type"] == "value_error"
        said = f"{key}: {message}" if key else message  # of a whole recipe: it names the settings
        yield said if own or not key else f"{said}, got {item['input']!r}"


def _meaning(key: str) -> str:
    meanings = known_keys()
    if key in meanings:
        return f" ({meanings[key]})"
    field = Recipe.model_fields.get(key)
    section = section_in(field.annotation) if field else None
    if section is not None:
        required = [f"{key}.{n}" for n, f in section.model_fields.items() if f.is_required()]
        return f" ({', '.join(required)})"
    return ""
