"""A corpus in an object store, or in any other file system that fsspec knows.

The directory of a stage may be a URL, ``s3://bucket/code/filtered``. Here it is a path of a scratch
directory, ``<scratch>/s3/bucket/code/filtered``, which belongs to this process and is removed with
it. The path says which object it stands for, so every stage goes on working with paths. A file is
fetched before it is read, and sent once it is whole; an object appears whole or not at all. Any
other path stands for itself, and everything here leaves it as it is.
"""

import atexit
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

from dph._base.files import make_directory
from dph._base.provenance import install_command
from dph.errors import DataError, SettingsError

SCRATCH = "DPH_SCRATCH"
"""The variable of the environment that names the directory for scratch files [default: that of
temporary files]."""
PATIENCE = 600.0
"""Seconds for which a store that does not answer, or answers with an error, is asked again."""
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/{1,3}(?=[^/])")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
_HOPELESS = {"NoCredentialsError", "PartialCredentialsError", "ParamValidationError"}
"""Errors of botocore that no patience mends."""
_ABSOLUTE = ("file", "local", "memory")
"""The schemes whose paths begin with a slash."""
_PARTIAL = ".partial"
"""The end of the name under which a file system of directories holds what is not whole yet."""

Result = TypeVar("Result")


# Where a URL lies here, and what a path stands for.


def placed(text: str) -> Path:
    """Path of ``text``: a path as it is, a URL (``s3://bucket/prefix``) in the scratch directory.

    >>> placed("code/raw")
    PosixPath('code/raw')
    """
    found = _URL.match(text)
    if found is None:
        return Path(text)
    scheme, rest = found[1], text[found.end() :].rstrip("/")
    if ".." in rest.split("/"):
        raise SettingsError(f"a URL must not contain '..', got {text}")
    path = _scratch() / scheme / rest
    _file_system(scheme, str(url_of(path)))
    return path


def url_of(path: Path) -> str | None:
    """The URL that ``path`` stands for; None if it is a path of this machine."""
    if _roots and path.is_relative_to(_roots[0]):
        scheme, *rest = path.relative_to(_roots[0]).parts
        return f"{scheme}://{'/' if scheme in _ABSOLUTE else ''}{'/'.join(rest)}"
    return None


def shown(path: Path) -> str:
    """The path as people know it: its URL, if it stands for one."""
    return url_of(path) or str(path)


_roots: list[Path] = []
"""The scratch directory of this process, or of its piece of work; none until it is needed."""
_NAME = re.compile(r"dph-scratch-(\d+)-")


def _scratch() -> Path:
    if not _roots:
        _roots.append(_new_scratch())
    return _roots[0]


@atexit.register
def _remove_scratch() -> None:
    while _roots:
        shutil.rmtree(_roots.pop(), ignore_errors=True)


def _new_scratch() -> Path:
    """A new scratch directory; those of processes that were killed go."""
    parent = make_directory(Path(os.environ.get(SCRATCH) or tempfile.gettempdir()))
    if Path("/proc/self").exists():
        for left in parent.glob("dph-scratch-*"):
            found = _NAME.match(left.name)
            if found and not Path(f"/proc/{found[1]}").exists():
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"dph-scratch-{os.getpid()}-", dir=parent)).resolve()


@contextmanager
def own_scratch() -> Iterator[None]:
    """A scratch directory for one piece of work, which is removed after it."""
    before, _roots[:] = list(_roots), []
    try:
        yield
    finally:
        _remove_scratch()
        _roots[:] = before


# Files and directories, wherever they are.


def fetched(path: Path) -> Path:
    """``path``, whose object has been fetched if it stands for one and there is one."""
    url = url_of(path)
    if url is None or path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    found = _asked(url, lambda files, place: files.get_file(place, str(temporary)))
    if found is not _NOTHING:
        temporary.replace(path)
    return path


def sent(path: Path) -> Path:
    """``path``, which has been sent to its store if it stands for an object."""
    if url := url_of(path):
        _asked(url, lambda files, place: _put(files, path, place), writes=True)
    return path


def is_there(path: Path) -> bool:
    """True where ``path`` is a file, or stands for an object that exists."""
    if url := url_of(path):
        return bool(_asked(url, lambda files, place: files.exists(place)))
    return path.is_file()


def names(directory: Path) -> set[str]:
    """Names of what lies in ``directory``; none if there is no such directory."""
    if url := url_of(directory):
        found = _asked(url, lambda files, place: files.ls(place, detail=False))
        found = () if found is _NOTHING else found
        return {str(each).rpartition("/")[2] for each in found if not str(each).endswith(_PARTIAL)}
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()


def removed(path: Path) -> None:
    """Remove the file or the directory at ``path``, and what it stands for, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if url := url_of(path):
        _asked(url, lambda files, place: files.rm(place, recursive=True))


def content(path: Path) -> bytes | None:
    """The bytes of a small file as they are now; None if there is none."""
    if url := url_of(path):
        found = _asked(url, lambda files, place: files.cat_file(place))
        return None if found is _NOTHING else bytes(found)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


_NOTHING = object()


def _asked(url: str, ask: Callable[[Any, str], Result], *, writes: bool = False) -> Result | Any:
    """Answer of the store, which is asked again while it fails; ``_NOTHING`` where nothing is."""
    files, place = _file_system(url.partition("://")[0], url)
    pause, until = _FIRST_PAUSE, time.monotonic() + PATIENCE
    while True:
        try:
            return ask(files, place)
        except FileNotFoundError as error:
            if writes:
                raise DataError(f"{url}: {error}") from error
            return _NOTHING
        except _FINAL as error:
            raise DataError(f"{url}: {error}") from error
        except Exception as error:  # libraries have classes of their own for a busy store
            if type(error).__name__ in _HOPELESS:
                raise DataError(f"{url}: {error}") from error
            if time.monotonic() + pause > until:
                raise DataError(
                    f"{url}: {type(error).__name__}: {error}; asked again for {PATIENCE:g} s"
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _put(files: Any, path: Path, place: str) -> None:
    """Write an object; a file system that would show half of one gets another name first."""
    if "file" not in files.protocol:
        files.put_file(str(path), place)
        return
    temporary = f"{place}.{os.getpid()}{_PARTIAL}"
    files.put_file(str(path), temporary)
    Path(temporary).replace(place)


def _file_system(scheme: str, url: str) -> tuple[Any, str]:
    files = _opened(scheme, f"{scheme}://{'/' if scheme in _ABSOLUTE else ''}x/x")
    return files, str(files._strip_protocol(url))


@cache
def _opened(scheme: str, example: str) -> Any:
    options = {"auto_mkdir": True} if scheme in ("file", "local") else {}
    try:
        core = import_module("fsspec.core")  # takes half a second: only where there is a URL
        return core.url_to_fs(example, use_listings_cache=False, **options)[0]
    except ImportError as error:
        s3fs = f"s3fs ({install_command('s3', 'dph-corpus')})"
        package = s3fs if scheme in ("s3", "s3a") else str(error)
        raise SettingsError(f"{scheme}:// needs {package}") from error
    except ValueError as error:
        raise SettingsError(
            f"{scheme}:// is not a file system that fsspec knows: {error}"
        ) from error


# Claims: files that several machines see, each held by whoever goes on changing it.

BEAT = 5.0
"""Seconds after which a claim is changed; one that stays as it is for four of them is nobody's."""


class Claims:
    """The claims of this process, kept up by a thread. Close them, or use ``with``.

    A store may have no lock, so two machines can end up with one claim: what they do must come out
    alike. Clocks are not compared: a claim is alive as long as it is seen to change.
    """

    def __init__(self, beat: float = BEAT) -> None:
        self._me, self._beat = uuid4().hex, beat
        self._held: set[Path] = set()
        self._seen: dict[Path, tuple[bytes, float]] = {}
        self._count = 0
        self._lock, self._end = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_up, daemon=True)
        self._thread.start()

    def take(self, path: Path) -> bool:
        """Take the claim ``path`` unless another process keeps it up; ask again to find out."""
        found = content(path)
        if found is not None and not self._is_mine(found):
            before, since = self._seen.get(path, (b"", 0.0))
            if found != before:
                self._seen[path] = (found, time.monotonic())
                return False
            if time.monotonic() - since < 4 * self._beat:
                return False
        self._write(path)
        if not self._is_mine(content(path) or b""):  # two at once: the last has it
            return False
        with self._lock:
            self._held.add(path)
        return True

    def wait_for(self, path: Path) -> bool:
        """Take the claim, or find within some beats that another process keeps it up."""
        first = content(path)
        while not self.take(path):
            if content(path) not in (None, first):
                return False
            time.sleep(self._beat / 5)
        return True

    def give_back(self, path: Path) -> None:
        """Remove a claim of this process."""
        with self._lock:
            self._held.discard(path)
        removed(path)

    def close(self) -> None:
        """Give all claims back."""
        self._end.set()
        self._thread.join()
        for path in list(self._held):
            self.give_back(path)

    def _is_mine(self, claim: bytes) -> bool:
        return claim.startswith(self._me.encode())

    def _keep_up(self) -> None:
        while not self._end.wait(self._beat):
            with self._lock:
                held = list(self._held)
            for path in held:
                self._write(path)

    def _write(self, path: Path) -> None:
        self._count += 1
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{self._me} {self._count}", encoding="utf-8")
        sent(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
