"""Names of models and files of data sets on the Hub in a recipe; nothing is looked up here."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

from pydantic import AfterValidator, Field, PlainSerializer

from dph._base.import_path import is_import_path, module_file
from dph.recipe.samples import with_directory
from dph.recipe.section import FilePath

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_MODEL = re.compile(f"{_NAME}/{_NAME}")
_FILE = re.compile(
    # A path has lost one of the slashes. Revisions with slashes are the Hub's own, or quoted.
    rf"hf:/{{1,2}}datasets/(?P<repo>{_NAME}/{_NAME})"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/@]+|[^/@]+))?/(?P<path>[^@].*)"
)
_UNQUOTED = re.compile(r"refs/(convert|pr)/[^/]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
SPELLING = "hf://datasets/<owner>/<name>[@<revision>]/<file>"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """One file of a data set on the Hub, spelled as by huggingface_hub's file system.

    >>> str(HubFile(repo="org/name", revision="v1", path="data/train.parquet"))
    'hf://datasets/org/name@v1/data/train.parquet'
    """

    repo: str
    revision: str | None
    """A branch, a tag or a commit; None is the data set's main branch."""
    path: str

    def __str__(self) -> str:
        """Name in a recipe."""
        return f"hf://datasets/{self.repo}{self._at()}/{self.path}"

    def _at(self) -> str:
        if self.revision is None:
            return ""
        plain = _UNQUOTED.fullmatch(self.revision)
        return f"@{self.revision if plain else quote(self.revision, safe='')}"

    def at(self, revision: str | None) -> "HubFile":
        """The same file at another revision."""
        return replace(self, revision=revision)

    @property
    def where(self) -> Path:
        """Placeholder for it where a setting is a path."""
        return Path(str(self))


def names_hub(path: str | Path) -> bool:
    """Whether a path is none, but begins as the name of a file on the Hub does."""
    return str(path).startswith("hf:")


def hub_file(path: str | Path) -> HubFile | None:
    """The file on the Hub that a setting names; None where it names a local one."""
    if not names_hub(path):
        return None
    found = _FILE.fullmatch(str(path))
    if found is None or ".." in found["path"].split("/"):
        raise ValueError(f"a file on the Hub must be named {SPELLING}, got {str(path)!r}")
    revision = found["revision"]
    return HubFile(
        repo=found["repo"],
        revision=None if revision is None else unquote(revision),
        path=found["path"],
    )


def is_model_id(path: str) -> bool:
    """Whether ``path`` has the form of a model's name on the Hub.

    >>> is_model_id("org/name"), is_model_id("name"), is_model_id("./org/name")
    (True, False, False)
    """
    return _MODEL.fullmatch(path) is not None


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit, which never comes to mean anything else."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def _well_formed(path: Path) -> Path:
    hub_file(path)
    return path


def _spelled(path: Path) -> str:
    return str(hub_file(path) or path)


def _local(path: Path) -> Path:
    if names_hub(path):
        raise ValueError(f"must be a local path, not a name on the Hub, got {_spelled(path)!r}")
    return path


ProblemsPath = Annotated[
    Path,
    Field(strict=False),
    AfterValidator(_well_formed),
    PlainSerializer(_spelled, return_type=str, when_used="json"),
]
"""A local file of problems, or one on the Hub."""
LocalPath = Annotated[FilePath, AfterValidator(_local)]
"""A path that cannot be a name on the Hub."""


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
    "data.shots.file",
    "objective.anchors.*.samples",
)
"""The keys of all paths; ``*`` stands for a name."""
OWN_CODE = ("verifier", "styles", "kind", "divergence", "agreement")
"""The settings that may name a function of the user's, in ``[data]``, sets and terms."""


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
    for tables, name in (
        (_sets(table), "path"),
        ({"shots": _inside(table, "data").get("shots")}, "file"),
    ):
        for value in tables.values():
            if isinstance(value, dict) and isinstance(value.get(name), str):
                value[name] = _absolute(directory, value[name])
    for anchor in _named(table, "anchors").values():
        if isinstance(anchor, dict) and isinstance(samples := anchor.get("samples"), str):
            anchor["samples"] = with_directory(samples, lambda place: str(directory / place))


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
        _inside(table, "self_consistency"),
    ]
    for section in sections:
        for key in OWN_CODE:
            name = section.get(key) if isinstance(section, dict) else None
            if isinstance(name, str) and is_import_path(name):
                yield name.partition(":")[0]
    environment = _inside(table, "environment").get("path")
    if isinstance(environment, str) and is_import_path(environment):
        yield environment.partition(":")[0]


def _sets(table: Mapping[str, Any]) -> dict[str, Any]:
    return _inside(_inside(table, "data"), "sets")


def _named(table: Mapping[str, Any], terms: str) -> dict[str, Any]:
    """The penalties or the anchors of the objective, by name."""
    return _inside(_inside(table, "objective"), terms)


def _inside(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table in a table; an empty one where there is none."""
    value = table.get(name)
    return value if isinstance(value, dict) else {}
