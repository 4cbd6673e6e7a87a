"""Names of models and files of data sets on the Hub in a recipe; nothing is looked up here."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

from pydantic import AfterValidator, Field, PlainSerializer

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
        """Name in a recipe."""
        revision, at = self.revision, ""
        if revision is not None:
            at = f"@{revision if _UNQUOTED.fullmatch(revision) else quote(revision, safe='')}"
        return f"hf://datasets/{self.repo}{at}/{self.path}"

    def at(self, revision: str | None) -> "HubFile":
        """The same file at another revision."""
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
    """Whether ``path`` has the form of a model's name on the Hub.

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
