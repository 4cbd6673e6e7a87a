"""What the inputs of an ingestion are, cut into units that a worker reads one at a time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from dph._base.files import sha256
from dph.corpus.ingest.about import about_sources
from dph.corpus.ingest.directories import list_files
from dph.corpus.ingest.git import is_repository, newest_commit
from dph.corpus.ingest.reading import printable
from dph.corpus.ingest.rows import ROW_SUFFIXES
from dph.corpus.shards import digest
from dph.errors import DataError

ARCHIVE_SUFFIXES = (
    *(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip", ".whl"),
)
_UNIT_FILES, _UNIT_BYTES = 1000, 64_000_000
"""Files of a directory that make a unit."""


class Kind(StrEnum):
    """What an input is. A directory of files of rows, and of nothing else, is rows."""

    DIRECTORY = "directory"
    GIT = "git"
    ARCHIVE = "archive"
    ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A part of an input, as JSON has it.

    ``version`` is what tells its content from another: a SHA-256, a commit, or the sizes and times
    of files. ``facts`` are fields that all its documents share.
    """

    label: str
    kind: str
    path: str
    version: str
    files: Sequence[str] = ()
    facts: Mapping[str, Any]
    columns: Mapping[str, str]

    def request(self) -> dict[str, Any]:
        """What a worker gets."""
        return asdict(self)

    def key(self) -> str:
        """A digest of all that its documents depend on; not where it lies."""
        return digest({name: value for name, value in asdict(self).items() if name != "path"})

    def identity(self) -> dict[str, Any]:
        """What the manifest says of it: the same wherever and whenever the files were copied."""
        files = len(self.files)
        version = digest(list(self.files)) if self.kind == Kind.DIRECTORY else self.version
        return {"label": self.label, "kind": str(self.kind), "version": version} | (
            {"files": files} if files else {}
        )


def plan(
    inputs: Sequence[str],
    *,
    about: Path | None = None,
    columns: Mapping[str, str] | None = None,
    out: Path | None = None,
) -> list[Unit]:
    """The units of ``inputs``, in an order that does not depend on theirs.

    Args:
        inputs: paths, or NAME=PATH where the label is not to be taken from the path.
        about: a file of rows with facts on the sources (``about_sources``).
        columns: the columns of rows that fields come in, where their names are others.
        out: where the corpus will be written; it may lie inside an input, of which it is no part.

    Raises:
        DataError: ``out`` is an input, an input is missing or of no known kind, or two have the
            same label.
    """
    facts = about_sources(about) if about else {}
    units: list[Unit] = []
    taken: dict[str, Path] = {}
    for text in inputs:
        label, path = _labelled(text)
        if label in taken:
            raise DataError(
                f"{taken[label]} and {path} would both be called {label!r}; "
                "give one of them a name of its own as NAME=PATH"
            )
        taken[label] = path
        if out is not None and path.is_dir() and out.resolve() == path.resolve():
            raise DataError(f"{path} is an input: write the corpus to another directory")
        units += _units(label, path, facts.get(label, {}), columns or {}, out)
    if unknown := sorted(set(facts) - set(taken)):
        raise DataError(
            f"{about} tells of {unknown[0]!r}, which is no input; "
            f"inputs: {', '.join(sorted(taken))}"
        )
    found = {unit.key(): unit for unit in units}  # equal files of a directory are read once
    return sorted(found.values(), key=lambda unit: (unit.label, unit.files[:1], unit.version))


def kind_of(path: Path, *, out: Path | None = None) -> Kind:
    """What an input is; a directory ``out`` inside it is no part of it.

    Raises:
        DataError: there is nothing there, or nothing that could be read.
    """
    if path.is_dir():
        if is_repository(path):
            return Kind.GIT
        return Kind.ROWS if _row_files(path, out) else Kind.DIRECTORY
    if not path.is_file():
        raise DataError(f"there is no file or directory {path}")
    if path.name.endswith(ROW_SUFFIXES):
        return Kind.ROWS
    if path.name.endswith(ARCHIVE_SUFFIXES):
        return Kind.ARCHIVE
    raise DataError(
        f"{path} is neither a directory nor a file that ends in one of "
        f"{', '.join((*ARCHIVE_SUFFIXES, *ROW_SUFFIXES))}"
    )


def _labelled(text: str) -> tuple[str, Path]:
    named = re.match(r"([A-Za-z0-9][\w.+-]*)=(.+)", text)
    if named and not Path(text).exists():
        return named[1], Path(named[2])
    path = Path(text)
    name = printable(path.resolve().name)
    for suffix in sorted((*ARCHIVE_SUFFIXES, *ROW_SUFFIXES), key=len, reverse=True):
        if path.is_file() and name.endswith(suffix):
            return name.removesuffix(suffix), path
    return name.removesuffix(".git") or name, path


def _units(
    label: str,
    path: Path,
    facts: Mapping[str, Any],
    columns: Mapping[str, str],
    out: Path | None,
) -> Iterator[Unit]:
    kind = kind_of(path, out=out)
    columns = columns if kind is Kind.ROWS else {}

    def unit(version: str, files: Sequence[str] = (), *, place: Path = path) -> Unit:
        return Unit(
            label=label,
            kind=kind,
            path=str(place.resolve()),
            version=version,
            files=files,
            facts=facts,
            columns=columns,
        )

    if kind is Kind.GIT:
        yield unit(newest_commit(path)[0])
    elif kind is Kind.DIRECTORY:
        for group in _groups(list_files(path, without=out)):
            yield unit(digest(group), [name for name, _, _ in group])
    else:
        for file in _row_files(path, out) if path.is_dir() else [path]:
            yield unit(sha256(file), place=file)


def _row_files(directory: Path, out: Path | None) -> list[Path]:
    """The files of a directory that holds files of rows and nothing else; [] if it does not."""
    there = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    found = [path for path in there if out is None or path.resolve() != out.resolve()]
    rows = [path for path in found if path.name.endswith(ROW_SUFFIXES) and path.is_file()]
    return rows if rows == found else []


def _groups(files: Sequence[tuple[str, int, int]]) -> Iterator[list[tuple[str, int, int]]]:
    group: list[tuple[str, int, int]] = []
    size = 0
    for file in files:
        group.append(file)
        size += file[1]
        if len(group) >= _UNIT_FILES or size >= _UNIT_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
