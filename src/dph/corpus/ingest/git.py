"""Files of a git repository's newest commit, read from its objects.

Objects, not the work tree: what was committed is the same on every machine, bare repositories
work, and links are known as such. Only plumbing that runs nothing from the repository is called.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from dph.corpus.ingest.reading import LARGEST, RawFile, Skip, printable
from dph.errors import DataError

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
    """The commit that is checked out, and when it was made (seconds since 1970).

    Raises:
        DataError: there is none, or git is not installed.
    """
    line = _git(path, "rev-list", "--timestamp", "--max-count=1", "HEAD").split()
    return line[1].decode(), int(line[0])


def repository_facts(path: Path) -> dict[str, Any]:
    """Where the repository came from, without names and passwords, and its newest commit's time."""
    facts: dict[str, Any] = {"commit_time": newest_commit(path)[1]}
    try:
        origin = _git(path, "config", "--local", "--get", "remote.origin.url").decode().strip()
    except DataError:  # it has none
        return facts
    url = _public(origin)
    name = url.removesuffix(".git").replace(":", "/").split("/")
    return facts | {"url": url, "repo": "/".join(name[-2:])}


def repository_files(path: Path, commit: str) -> Iterator[RawFile | Skip]:
    """The files of ``commit``, in order; links, submodules and pointers of Git LFS are skips."""
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
            elif data.startswith(b"version https://git-lfs.github.com/spec/"):
                yield Skip("lfs_pointer", place)
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
        raise DataError(f"{path} is a git repository, and git is not installed") from error
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
