"""Places in a recipe: its paths, the pools that it reads, and the modules of your functions."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from dph._base.import_path import is_import_path, module_file
from dph.recipe.hub_names import names_hub

POOL = "pool"
"""The value of ``samples`` for the run's own pool; ``pool:DIR`` is that of another run."""


def directory_of(text: str) -> str:
    """The directory that a value of ``samples`` names; '' for the run's own pool.

    >>> directory_of("pool"), directory_of("pool:other")
    ('', 'other')
    """
    kind, colon, name = text.partition(":")
    if kind != POOL or bool(colon) != bool(name):
        raise ValueError(f"should be 'pool' or 'pool:DIRECTORY', got {text!r}")
    return name


def _well_formed(text: str) -> str:
    directory_of(text)
    return text


AnySamples = Annotated[str, AfterValidator(_well_formed)]


def with_directory(samples: str, change: Callable[[str], str]) -> str:
    """``samples`` with another directory, where it names one.

    >>> with_directory("pool:other", lambda place: f"/runs/{place}")
    'pool:/runs/other'
    """
    kind, _, place = samples.partition(":")
    return f"{kind}:{change(place)}" if kind == POOL and place else samples


SAMPLES = "objective.anchors.*.samples"
PLACES = (
    "data.train",
    "data.databases",
    "data.modules",
    "presample.pool",
    "model.path",
    "self_consistency.file",
    "data.sets.*.path",
    "data.shots.file",
    SAMPLES,
)
"""The keys of all paths; ``*`` stands for a name."""
_CODE_IN = (
    "data",
    "data.sets.*",
    "objective",
    "objective.advantage",
    "objective.surrogate",
    "objective.penalties.*",
    "objective.anchors.*",
    "self_consistency",
)
OWN_CODE = ("verifier", "styles", "kind", "divergence", "agreement")
"""The settings of these tables that may name a function of the user's."""


def _tables(table: Mapping[str, Any], path: str) -> list[dict[str, Any]]:
    """The tables at a dotted path, of any name where it has ``*``."""
    found: list[Any] = [table]
    for part in path.split("."):
        inside = (each.values() if part == "*" else [each.get(part)] for each in found)
        found = [value for values in inside for value in values if isinstance(value, dict)]
    return found


def spell_out_sets(table: Mapping[str, Any]) -> None:
    """Make ``sets.dev = "dev.jsonl"`` the table ``{path = "dev.jsonl"}``, so that keys fit in."""
    for sets in _tables(table, "data.sets"):
        for name, value in sets.items():
            if isinstance(value, str):
                sets[name] = {"path": value}


def start_paths_at(table: Mapping[str, Any], directory: Path) -> None:
    """Make relative paths absolute, except a model that is not there and names on the Hub."""
    for key in PLACES:
        inside, _, name = key.rpartition(".")
        for values in _tables(table, inside):
            value = values.get(name)
            if isinstance(value, str) and key == SAMPLES:
                values[name] = with_directory(value, lambda place: str(directory / place))
            elif isinstance(value, str) and (key != "model.path" or (directory / value).exists()):
                values[name] = value if names_hub(value) else str(directory / value)
            elif isinstance(value, list):
                values[name] = [str(directory / v) if isinstance(v, str) else v for v in value]


def place_own_code(table: Mapping[str, Any], *, beside: Path, overridden: bool) -> None:
    """Write into ``data.modules`` the directories of the modules that the recipe names.

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
    found = (
        next((place for place in searched if module_file(module, Path(place))), None)
        for module in _own_modules(table)
    )
    places = dict.fromkeys([*given, *(place for place in found if place)])
    if places:
        data["modules"] = list(places)


def _own_modules(table: Mapping[str, Any]) -> Iterator[str]:
    """The modules of all functions of the user's that the recipe names."""
    sections = [section for path in _CODE_IN for section in _tables(table, path)]
    named = [section.get(key) for section in sections for key in OWN_CODE]
    named += [section.get("path") for section in _tables(table, "environment")]
    for name in named:
        if isinstance(name, str) and is_import_path(name):
            yield name.partition(":")[0]
