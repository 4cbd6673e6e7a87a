"""Files of tar and zip archives. Nothing is unpacked to disk, so nothing is written outside."""

import os
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Self
from urllib.parse import urlsplit, urlunsplit

from dph.errors import DataError, SettingsError
from dph_corpus.ingest.reading import (
    DAMAGE,
    LARGEST,
    RawFile,
    Skip,
    TooLargeError,
    allowed,
    damaged,
    plain_path,
    printable,
    unpacked,
)

# Files of a git repository's newest commit, read from its objects.
#
# Objects, not the work tree: what was committed is the same on every machine, bare repositories
# work, and links are known as such. Only plumbing that runs nothing from the repository is
# called.

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",  # a partial clone would ask the network
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
_LINK, _MODULE = "120000", "160000"


def is_repository(path: Path) -> bool:
    """Whether ``path`` is a checkout or a bare repository."""
    bare = (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
    return (path / ".git").exists() or bare


def newest_commit(path: Path) -> tuple[str, int]:
    """The commit that is checked out, and when it was made (seconds since 1970)."""
    line = _git(path, "rev-list", "--timestamp", "--max-count=1", "HEAD").split()
    return line[1].decode(), int(line[0])


def repository_facts(path: Path) -> dict[str, Any]:
    """Origin of the repository, without names and passwords, and its newest commit's time."""
    facts: dict[str, Any] = {"commit_time": newest_commit(path)[1]}
    try:
        origin = _git(path, "config", "--local", "--get", "remote.origin.url").decode().strip()
    except DataError:  # it has none
        return facts
    url = _public(origin)
    name = url.removesuffix(".git").replace(":", "/").split("/")
    return facts | {"url": url, "repo": "/".join(name[-2:])}


def repository_files(path: Path, commit: str) -> Iterator[RawFile | Skip]:
    """The files of ``commit``, in order; links and submodules are skips."""
    listed = _git(path, "ls-tree", "-r", "-z", "--full-tree", "-l", commit)
    with closing(_Objects(path)) as objects:
        for entry in listed.split(b"\0")[:-1]:
            facts, _, raw = entry.partition(b"\t")
            mode, _, name, size = facts.decode().split()
            place = printable(os.fsdecode(raw))
            if mode in (_LINK, _MODULE):
                yield Skip("link" if mode == _LINK else "submodule", place)
            elif size.isdigit() and int(size) > LARGEST:
                yield Skip("oversized", place, f"{size} bytes")
            elif (data := objects.read(name)) is None:
                yield Skip("unreadable", place, f"the object {name} is missing")
            else:
                yield RawFile(place, data)


class _Objects:
    """One ``git cat-file --batch``, asked object by object."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            _command(path, "cat-file", "--batch"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | _ENVIRONMENT,
        )

    def read(self, name: str) -> bytes | None:
        """The object's bytes, or None if the repository lacks it."""
        source, sink = self._pipes()
        sink.write(f"{name}\n".encode())
        sink.flush()
        head = source.readline().split()
        if len(head) != 3 or not head[2].isdigit():
            return None
        data = source.read(int(head[2]))
        source.read(1)
        return data

    def close(self) -> None:
        """End it."""
        for pipe in self._pipes():
            pipe.close()
        self._process.kill()
        self._process.wait()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        return self._process.stdout, self._process.stdin


def _git(path: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            _command(path, *arguments), capture_output=True, env=os.environ | _ENVIRONMENT
        )
    except FileNotFoundError as error:
        raise SettingsError(f"{path} is a git repository, and git is not installed") from error
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or f"code {done.returncode}"
        raise DataError(f"cannot read the git repository {path}: {reason}")
    return done.stdout


def _command(path: Path, *arguments: str) -> list[str]:
    """Git on ``path``, whoever owns it, with nothing that its settings might run."""
    settings = ("safe.directory=*", "core.fsmonitor=false", "core.hooksPath=/dev/null")
    given = (word for setting in settings for word in ("-c", setting))
    return ["git", *given, "-C", str(path.resolve()), *arguments]


def _public(url: str) -> str:
    """The URL without a user's name and password."""
    parts = urlsplit(url)
    if not parts.scheme:
        return url.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


_LONGEST_HEADER = 1_000_000
"""Bytes of a long name or of a table of attributes, which tarfile reads whole."""
_MOST_MEMBERS = 1_000_000

_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class _Header(tarfile.TarInfo):
    """A member's header, refused if it wants to be followed by megabytes of names."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADERS and info.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {info.size} bytes")
        return info


def archive_files(path: Path, top: str = "") -> Iterator[RawFile | Skip]:
    """The regular files of an archive, by its content a zip or a (packed) tar.

    The folder ``top`` is left out of their paths. Links, devices, paths that lead outside and files
    that are too large are skips; so is, once, the rest of an archive that is broken or unpacks to
    too much.
    """
    before = "the beginning"
    try:
        found = _zip_files(path) if zipfile.is_zipfile(path) else _tar_files(path)
        for count, file in enumerate(found):
            if count >= _MOST_MEMBERS:
                yield Skip("archive_too_large", f"after {before}", f"over {_MOST_MEMBERS} members")
                return
            before = file.path
            if isinstance(file, RawFile):
                file = RawFile(file.path.removeprefix(f"{top}/"), file.data)
            yield file
    except TooLargeError as error:
        yield Skip("archive_too_large", f"after {before}", str(error))
    except DAMAGE as error:
        yield damaged("archive", f"after {before}", error)


def _tar_files(path: Path) -> Iterator[RawFile | Skip]:
    with (
        unpacked(path) as stream,
        tarfile.open(
            fileobj=stream, mode="r|", tarinfo=_Header, errors="surrogateescape"
        ) as archive,
    ):
        for member in archive:
            archive.members = []  # type: ignore[attr-defined]  # which it would keep to the end
            if member.isdir():
                continue
            place = _member_path(member.name)
            if not member.isreg():
                yield Skip("link" if member.issym() or member.islnk() else "special", place.path)
            elif isinstance(place, Skip):
                yield place
            elif member.size > LARGEST:
                yield Skip("oversized", place.path, f"{member.size} bytes")
            elif (file := archive.extractfile(member)) is not None:
                yield RawFile(place.path, file.read())


def _zip_files(path: Path) -> Iterator[RawFile | Skip]:
    left = allowed(path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            place = _member_path(member.filename)
            if stat.S_ISLNK(member.external_attr >> 16):
                yield Skip("link", place.path)
            elif isinstance(place, Skip):
                yield place
            elif member.file_size > LARGEST:
                yield Skip("oversized", place.path, f"{member.file_size} bytes")
            elif member.flag_bits & 1:
                yield Skip("encrypted", place.path)
            else:
                with archive.open(member) as file:  # it stops at the size that the table tells
                    data = file.read()
                left -= len(data)
                if left < 0:
                    raise TooLargeError("it unpacks to more than the limit")
                yield RawFile(place.path, data)


def _member_path(name: str) -> RawFile | Skip:
    """Path of a member, as an empty file, or a skip if that is outside."""
    path = plain_path(name)
    if path is None:
        return Skip("unsafe_path", printable(name))
    return RawFile(printable(path), b"")
