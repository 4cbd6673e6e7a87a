"""Files of tar and zip archives. Nothing is unpacked to disk, so nothing is written outside."""

import re
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from dph.corpus.ingest.reading import DAMAGE, LARGEST, RawFile, Skip, plain_path, printable
from dph.corpus.ingest.reading import TooLargeError, allowed, unpacked

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


def archive_files(path: Path, name: str) -> Iterator[RawFile | Skip]:
    """The regular files of an archive, by its content a zip or a (packed) tar.

    The folder ``name`` that all members of a source distribution lie in is left out of their
    paths. Links, devices, paths that lead outside and files that are too large are skips; so is,
    once, the rest of an archive that is broken or unpacks to too much.
    """
    try:
        found = _zip_files(path) if zipfile.is_zipfile(path) else _tar_files(path)
        for count, file in enumerate(found):
            if count >= _MOST_MEMBERS:
                yield Skip("archive_too_large", "", f"over {_MOST_MEMBERS} members")
                return
            yield _without_top(file, _folded(name)) if isinstance(file, RawFile) else file
    except TooLargeError as error:
        yield Skip("archive_too_large", "", str(error))
    except DAMAGE as error:
        yield Skip("archive_damaged", "", f"{type(error).__name__}: {error}"[:200])


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
                    raise TooLargeError("it unpacks to more than it may")
                yield RawFile(place.path, data)


def _member_path(name: str) -> RawFile | Skip:
    """Where a member lies, as an empty file, or as a skip if that is outside."""
    path = plain_path(name)
    if path is None:
        return Skip("unsafe_path", printable(name))
    return RawFile(printable(path), b"")


def _without_top(file: RawFile, folded: str) -> RawFile:
    top, slash, rest = file.path.partition("/")
    return RawFile(rest, file.data) if slash and _folded(top) == folded else file


def _folded(name: str) -> str:
    """Names of a distribution are the same if they differ in case and in - _ . only (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
