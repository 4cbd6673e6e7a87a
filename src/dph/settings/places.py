"""Where the files and modules lie that a recipe names: made absolute when it is read or saved."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dph.import_path import is_import_path, module_file

PATH_KEYS = ("data.train", "data.databases", "data.modules", "presample.pool", "model.path")
OWN_CODE = ("verifier", "styles")
"""The settings of ``[data]`` and of its sets that may name a function of the user's."""


def spell_out_sets(table: Mapping[str, Any]) -> None:
    """Make ``sets.dev = "dev.jsonl"`` the table ``{path = "dev.jsonl"}``, so that keys fit in."""
    sets = _sets(table)
    for name, value in sets.items():
        if isinstance(value, str):
            sets[name] = {"path": value}


def start_paths_at(table: Mapping[str, Any], directory: Path) -> None:
    """Make relative paths absolute; a model name that is no directory there is left as it is."""
    for key in PATH_KEYS:
        section, name = key.split(".")
        values = table.get(section)
        value = values.get(name) if isinstance(values, dict) else None
        if isinstance(value, str) and (key != "model.path" or (directory / value).exists()):
            values[name] = str(directory / value)  # type: ignore[index]
        elif isinstance(value, list):
            values[name] = [str(directory / v) if isinstance(v, str) else v for v in value]  # type: ignore[index]
    for value in _sets(table).values():
        if isinstance(value, dict) and isinstance(value.get("path"), str):
            value["path"] = str(directory / value["path"])


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
    found = (_first(module, searched) for module in _own_modules(data))
    places = dict.fromkeys([*given, *(place for place in found if place)])
    if places:
        data["modules"] = list(places)


def _first(module: str, places: Sequence[str]) -> str | None:
    return next((place for place in places if module_file(module, Path(place))), None)


def _own_modules(data: Mapping[str, Any]) -> Iterator[str]:
    sets = data.get("sets")
    tables = [data, *(sets.values() if isinstance(sets, dict) else ())]
    for table in tables:
        for key in OWN_CODE:
            name = table.get(key) if isinstance(table, dict) else None
            if isinstance(name, str) and is_import_path(name):
                yield name.partition(":")[0]


def _sets(table: Mapping[str, Any]) -> dict[str, Any]:
    data = table.get("data")
    sets = data.get("sets") if isinstance(data, dict) else None
    return sets if isinstance(sets, dict) else {}
