"""Inputs of an ingestion, cut into units that a worker reads one at a time."""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from dph._base.files import sha256
from dph._base.files.rows import read_rows
from dph.errors import DataError
from dph_corpus.ingest.archives import is_repository, newest_commit
from dph_corpus.ingest.hub_rows import READING_HUB, HubRows, hub_pieces, names_hub
from dph_corpus.ingest.pages import PAGE_SUFFIXES, READING_PAGES
from dph_corpus.ingest.reading import LARGEST, ROW_SUFFIXES, RawFile, Skip, printable
from dph_corpus.shards import digest
from dph_corpus.stage import require

# Files of a directory: regular ones, without following links.

_NOT_FILES_OF_OURS = frozenset({".git", ".hg", ".svn"})


def list_files(directory: Path, *, without: Path | None = None) -> list[tuple[str, int, int]]:
    """Path, size and time of change (ns) of each file and link below ``directory``, in order.

    Bookkeeping of version control is left out, and so is the directory ``without``.
    """
    found: list[tuple[str, int, int]] = []
    open_directories = [""]
    while open_directories:
        place = open_directories.pop()
        try:
            entries = sorted(os.scandir(directory / place), key=lambda entry: entry.name)
        except OSError as error:
            if not place:
                raise DataError(f"cannot read {directory}: {error.strerror}") from error
            found.append((place, 0, 0))  # reading it says that it cannot be read
            continue
        for entry in entries:
            path = f"{place}/{entry.name}" if place else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _NOT_FILES_OF_OURS and not _same(entry, without):
                    open_directories.append(path)
            else:
                state = entry.stat(follow_symlinks=False)
                found.append((path, state.st_size, state.st_mtime_ns))
    return sorted(found)


def _same(entry: os.DirEntry[str], other: Path | None) -> bool:
    return other is not None and other.exists() and other.samefile(entry.path)


def directory_files(directory: Path, paths: Sequence[str]) -> Iterator[RawFile | Skip]:
    """The files at ``paths``; links, devices and what cannot be read are skips."""
    for path in paths:
        name = printable(path)
        try:
            data = _read(directory / path)
        except OSError as error:
            yield Skip("unreadable", name, error.strerror or "")
            continue
        yield RawFile(name, data) if isinstance(data, bytes) else Skip(data.reason, name, data.note)


def _read(path: Path) -> bytes | Skip:
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        return Skip("link", "")
    if not stat.S_ISREG(state.st_mode):
        return Skip("unreadable" if stat.S_ISDIR(state.st_mode) else "special", "")
    if state.st_size > LARGEST:
        return Skip("oversized", "", f"{state.st_size} bytes")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - of a descriptor that follows no link
        return file.read(LARGEST + 1)


# Facts on sources that no file of theirs tells: stars, licence, when they were last changed.

_TEXTS, _NUMBERS = ("repo", "licence", "url", "natural_language"), ("stars", "commit_time")


def about_sources(path: Path) -> dict[str, dict[str, Any]]:
    """For each ``source`` (the label of an input) the fields that its documents share."""
    found: dict[str, dict[str, Any]] = {}
    for place, row in read_rows(path):
        if not isinstance(row, dict) or not isinstance(row.get("source"), str):
            raise DataError(f"{place}: a row must name a source, got {row!r:.80}")
        if unknown := sorted(set(row) - {"source", *_TEXTS, *_NUMBERS}):
            allowed = ", ".join((*_TEXTS, *_NUMBERS))
            raise DataError(f"{place}: {unknown[0]!r} is not one of source, {allowed}")
        if row["source"] in found:
            raise DataError(f"{place}: {row['source']!r} occurs twice")
        found[row["source"]] = {
            name: _field(name, value, place)
            for name, value in row.items()
            if name != "source" and value not in (None, "")
        }
    return found


def _field(name: str, value: Any, place: str) -> Any:
    if name in _NUMBERS:
        if str(value).isdecimal():
            return int(value)
        raise DataError(f"{place}: {name} must be a number of at least 0, got {value!r:.80}")
    if not isinstance(value, str):
        raise DataError(f"{place}: {name} must be text, got {value!r:.80}")
    return value


ARCHIVE_SUFFIXES = (
    *(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip", ".whl"),
)
_SUFFIXES = (*ARCHIVE_SUFFIXES, *ROW_SUFFIXES, *PAGE_SUFFIXES)
_UNIT_FILES, _UNIT_BYTES = 1000, 64_000_000
"""Files of a directory that make a unit."""


class SourceKind(StrEnum):
    """Kind of an input. A directory that has only files of rows is rows."""

    DIRECTORY = "directory"
    GIT = "git"
    ARCHIVE = "archive"
    ROWS = "rows"
    PAGES = "pages"
    HUB = "hub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A part of an input; all fields are JSON.

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

    def key(self) -> str:
        """A digest of all that its documents depend on; not where it lies."""
        return digest({name: value for name, value in asdict(self).items() if name != "path"})

    def identity(self) -> dict[str, Any]:
        """Identity in the manifest: the same wherever and whenever the files were copied."""
        files = len(self.files)
        version = digest(list(self.files)) if self.kind == SourceKind.DIRECTORY else self.version
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
        inputs: paths or names on the Hub, or NAME=PATH where the label is not to be taken from the
            path.
        about: a file of rows with facts on the sources (``about_sources``).
        columns: the columns of rows that fields come in, where their names are others.
        out: where the corpus will be written; it may lie inside an input, of which it is no part.
    """
    facts = about_sources(about) if about else {}
    units: list[Unit] = []
    taken: dict[str, Path] = {}
    for text in inputs:
        label, path = _labelled(text)
        if label in taken:
            raise DataError(
                f"{taken[label]} and {path} would both be called {label!r}; "
                "give one of them a different name as NAME=PATH"
            )
        taken[label] = path
        if out is not None and path.is_dir() and out.resolve() == path.resolve():
            raise DataError(f"{path} is an input: write the corpus to another directory")
        units += _units(label, path, facts.get(label, {}), columns or {}, out)
    if unknown := sorted(set(facts) - set(taken)):
        raise DataError(
            f"{about} describes {unknown[0]!r}, which is not an input; inputs: "
            f"{', '.join(sorted(taken))}"
        )
    found = {unit.key(): unit for unit in units}  # equal files of a directory are read once
    return sorted(found.values(), key=lambda unit: (unit.label, unit.files[:1], unit.version))


def kind_of(path: Path, *, out: Path | None = None) -> SourceKind:
    """Kind of an input; a directory ``out`` inside it does not count."""
    if path.is_dir():
        if is_repository(path):
            return SourceKind.GIT
        return SourceKind.ROWS if _row_files(path, out) else SourceKind.DIRECTORY
    if not path.is_file():
        raise DataError(f"there is no file or directory {path}")
    if path.name.endswith(ROW_SUFFIXES):
        return SourceKind.ROWS
    if path.name.endswith(ARCHIVE_SUFFIXES):
        return SourceKind.ARCHIVE
    if path.name.endswith(PAGE_SUFFIXES):
        require(READING_PAGES, "ingest", extra="web")
        return SourceKind.PAGES
    raise DataError(
        f"{path} is neither a directory nor a file that ends in one of {', '.join(_SUFFIXES)}"
    )


def _labelled(text: str) -> tuple[str, Path]:
    named = re.match(r"([A-Za-z0-9][\w.+-]*)=(.+)", text)
    if named and not Path(text).exists():
        return named[1], Path(named[2])
    path = Path(text)
    if names_hub(path):
        return HubRows.of(path).name, path
    name = printable(path.resolve().name)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if path.is_file() and name.endswith(suffix):
            return name.removesuffix(suffix), path
    return name.removesuffix(".git") or name, path


def _units(
    label: str, path: Path, facts: Mapping[str, Any], columns: Mapping[str, str], out: Path | None
) -> Iterator[Unit]:
    kind = SourceKind.HUB if names_hub(path) else kind_of(path, out=out)
    columns = columns if kind in (SourceKind.ROWS, SourceKind.HUB) else {}

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

    version = ""
    if kind is SourceKind.GIT:
        with suppress(DataError):  # reading it says that it is damaged
            version = newest_commit(path)[0]
        yield unit(version)
    elif kind is SourceKind.DIRECTORY:
        for group in _groups(list_files(path, without=out)):
            yield unit(digest(group), [name for name, _, _ in group])
    elif kind is SourceKind.HUB:
        require(READING_HUB, "ingest", extra="hub")
        found = hub_pieces(path)
        for piece in found.pieces:
            if found.version:
                yield replace(unit(found.version, [piece]), path=found.pinned)
            else:
                cached = unit(sha256(Path(piece)), place=Path(piece))
                yield replace(cached, kind=SourceKind.ROWS)
    else:
        for file in _row_files(path, out) if path.is_dir() else [path]:
            yield unit(sha256(file), place=file)


_OF_DATASETS = ("dataset_info.json", "state.json")
"""Files that datasets writes next to rows."""


def _row_files(directory: Path, out: Path | None) -> list[Path]:
    """The files of a directory that holds files of rows and nothing else; [] if it does not."""
    there = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    found = [path for path in there if out is None or path.resolve() != out.resolve()]
    if any(path.suffix == ".arrow" for path in found):
        found = [path for path in found if path.name not in _OF_DATASETS]
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
