"""Where the files and modules lie that a recipe names: made absolute when it is read or saved."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph._base.import_path import is_import_path, module_file
from dph.recipe.hub_names import names_hub

PATH_KEYS = (
    "data.train",
    "data.databases",
    "data.modules",
    "presample.pool",
    "model.path",
    "self_consistency.file",
)
PLACES = (
    *PATH_KEYS,
    "data.sets.*.path",
    "objective.anchors.*.store",
    "stores.*.file",
    "stores.*.place",
)
"""The keys of all paths; ``*`` stands for a name."""
OWN_CODE = ("verifier", "styles", "kind", "divergence", "prompts", "agreement")
"""The settings that may name a function of the user's, in ``[data]``, sets, terms and stores."""


def spell_out_sets(table: Mapping[str, Any]) -> None:
    """Make ``sets.dev = "dev.jsonl"`` the table ``{path = "dev.jsonl"}``, so that keys fit in."""
    sets = _sets(table)
    for name, value in sets.items():
        if isinstance(value, str):
            sets[name] = {"path": value}


def start_paths_at(table: Mapping[str, Any], directory: Path) -> None:
    """Make relative paths absolute; a model that is not there and names on the Hub stay."""
    for key in PATH_KEYS:
        section, name = key.split(".")
        values = table.get(section)
        value = values.get(name) if isinstance(values, dict) else None
        if isinstance(value, str) and (key != "model.path" or (directory / value).exists()):
            values[name] = _absolute(directory, value)  # type: ignore[index]
        elif isinstance(value, list):
            values[name] = [str(directory / v) if isinstance(v, str) else v for v in value]  # type: ignore[index]
    stores = _inside(table, "stores")
    for tables, name in (
        (_sets(table), "path"),
        (_named(table, "anchors"), "store"),
        (stores, "file"),
        (stores, "place"),
    ):
        for value in tables.values():
            if isinstance(value, dict) and isinstance(value.get(name), str):
                value[name] = _absolute(directory, value[name])


def _absolute(directory: Path, value: str) -> str:
    return value if names_hub(value) else str(directory / value)


def place_own_code(table: Mapping[str, Any], *, beside: Path, overridden: bool) -> None:
    """Write into ``data.modules`` where the modules lie that the recipe names.

    They are looked for in the directories that it names itself, else in ``beside``, the recipe's
    own, and in the working directory; what is in neither is left to Python's search path.
    ``overridden``: a name was given on the command line, so the working directory counts always.
    """
    data = table.get("data")
    if not isinstance(data, dict):
        return
    given = data.get("modules", [])
    if not isinstance(given, list) or not all(isinstance(place, str) for place in given):
        return  # refused, with its value, where types are checked
    here = [str(Path.cwd())]
    searched = [*given, *(here if overridden else [])] if given else [str(beside), *here]
    found = (_first(module, searched) for module in _own_modules(table))
    places = dict.fromkeys([*given, *(place for place in found if place)])
    if places:
        data["modules"] = list(places)


def _first(module: str, places: Sequence[str]) -> str | None:
    return next((place for place in places if module_file(module, Path(place))), None)


def _own_modules(table: Mapping[str, Any]) -> Iterator[str]:
    """The modules of all functions of the user's that the recipe names."""
    objective = _inside(table, "objective")
    sections = [
        _inside(table, "data"),
        *_sets(table).values(),
        objective,
        *(_inside(objective, term) for term in ("advantage", "surrogate")),
        *_named(table, "penalties").values(),
        *_named(table, "anchors").values(),
        *_inside(table, "stores").values(),
        _inside(table, "self_consistency"),
    ]
    for section in sections:
        for key in OWN_CODE:
            name = section.get(key) if isinstance(section, dict) else None
            if isinstance(name, str) and is_import_path(name):
                yield name.partition(":")[0]


def _sets(table: Mapping[str, Any]) -> dict[str, Any]:
    return _inside(_inside(table, "data"), "sets")


def _named(table: Mapping[str, Any], terms: str) -> dict[str, Any]:
    """The penalties or the anchors of the objective, by name."""
    return _inside(_inside(table, "objective"), terms)


def _inside(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table in a table; an empty one where there is none."""
    value = table.get(name)
    return value if isinstance(value, dict) else {}
