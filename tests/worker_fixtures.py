"""What tests of worker processes need: modules that a child can import, and a count of children."""

import hashlib
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Write a module that this process and its workers can import; gives back its name."""
    folder = tmp_path / "user code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def write(source: str) -> str:
        text = textwrap.dedent(source)
        name = f"user_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        return name

    return write


def state_of(folder: Path) -> dict[Path, tuple[int, str]]:
    """Every file and directory below one, with its mode and the hash of its content."""
    return {
        path: (path.lstat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        if path.is_file()
        else (path.lstat().st_mode, "")
        for path in folder.rglob("*")
    }


def children_of(pid: int) -> set[int]:
    """The process ids of a process's living children, zombies included."""
    children = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            children |= {int(child) for child in (task / "children").read_text().split()}
    return children


def gone(pid):
    """Whether a process has ended, or does within seconds; its number may wait to be reaped."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False
