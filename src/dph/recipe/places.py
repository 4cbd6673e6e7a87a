"""Places in a recipe: its paths, names on the Hub, the pools that it reads, your own modules.

Nothing is looked up on the Hub here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

from pydantic import AfterValidator, Field, PlainSerializer

from dph._base.import_path import is_import_path, module_file
from dph.recipe.section import FilePath

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_MODEL = re.compile(f"{_NAME}/{_NAME}")
_FILE = re.compile(
    # A path has lost one of the slashes. Revisions with slashes are the Hub's own, or quoted.
    rf"hf:/{{1,2}}datasets/(?P<repo>{_NAME}/{_NAME})"
    r"(?:@(?P<revision>refs/(?:convert|pr)/[^/@]+|[^/@]+))?/(?P<path>[^@].*)"
)
_UNQUOTED = re.compile(r"refs/(convert|pr)/[^/]+")
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
        revision, at = self.revision, ""
        if revision is not None:
            at = f"@{revision if _UNQUOTED.fullmatch(revision) else quote(revision, safe='')}"
        return f"hf://datasets/{self.repo}{at}/{self.path}"

    def at(self, revision: str | None) -> "HubFile":
        return replace(self, revision=revision)


def names_hub(path: str | Path) -> bool:
    """True if a path begins like the name of a file on the Hub."""
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
    """True if ``path`` has the form of a model's name on the Hub.

    >>> is_model_id("org/name"), is_model_id("name"), is_model_id("./org/name")
    (True, False, False)
    """
    return _MODEL.fullmatch(path) is not None


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


def _well_formed_samples(text: str) -> str:
    directory_of(text)
    return text


AnySamples = Annotated[str, AfterValidator(_well_formed_samples)]


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
    sections = [section for path in _CODE_IN for section in _tables(table, path)]
    named = [section.get(key) for section in sections for key in OWN_CODE]
    named += [section.get("path") for section in _tables(table, "environment")]
    places = dict.fromkeys(given)
    for name in named:
        if isinstance(name, str) and is_import_path(name):
            module = name.partition(":")[0]
            found = (place for place in searched if module_file(module, Path(place)))
            places |= dict.fromkeys(islice(found, 1))
    if places:
        data["modules"] = list(places)
