"""A task: a piece of work that leaves files behind, and the note of what it answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, read_json, sha256, write_json
from dph._processes.workers import Reply, ReplyKind, WorkerPool
from dph.errors import DataError, StageError

SECONDS = 3600.0
"""Limit of what a handler does before it announces something, such as sorting."""
_GIVEN_UP = {ReplyKind.TIMED_OUT: "time", ReplyKind.CRASHED: "crash"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A piece of work.

    ``request`` is what the handler gets, and with it ``careful`` and ``given_up``
    (``dph.corpus.shard_work``). The handler answers with an object; its ``files`` are the digests
    of ``files`` by the same names, or of all that it wrote into ``folder``. ``title`` is told with
    the progress.
    """

    name: str
    key: str
    request: Mapping[str, Any]
    files: Mapping[str, Path] = field(default_factory=dict)
    folder: Path | None = None
    title: str = ""

    def place(self, name: str) -> Path:
        """Where the file of that name lies."""
        return self.files[name] if self.folder is None else self.folder / name


class Notes:
    """What finished tasks answered, a file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, task: Task) -> Path:
        """Where the note of a task lies."""
        return self.directory / f"{task.name}.json"

    def read(self, task: Task) -> dict[str, Any] | None:
        """What the task answered, if it was the same and its files are as it left them."""
        try:
            note = read_json(self.path(task))
        except DataError:  # none, or cut off
            return None
        if not isinstance(note, dict) or note.get("key") != task.key:
            return None
        answer: dict[str, Any] = note["answer"]
        found = answer.get("files", {})
        names = set(task.files) | set(found)
        return answer if all(_is(task, name, found.get(name)) for name in names) else None

    def write(self, task: Task, answer: Mapping[str, Any]) -> None:
        """Keep what the task answered."""
        make_directory(self.directory)
        write_json(self.path(task), {"key": task.key, "answer": dict(answer)})


def _is(task: Task, name: str, expected: str | None) -> bool:
    if task.folder is None and name not in task.files:
        return False
    path = task.place(name)
    return path.is_file() and sha256(path) == expected


def answer_of(pool: WorkerPool, task: Task, most_given_up: int) -> dict[str, Any]:
    """What the handler says, after giving up documents that cost a worker.

    Raises:
        StageError: the task failed.
    """
    careful, given_up = False, dict[str, str]()
    while True:
        request = {**task.request, "careful": careful, "given_up": given_up}
        reply = pool.run([request])[0]
        if reply.kind is ReplyKind.OK:
            answer: dict[str, Any] = reply.value
            return answer
        if reply.kind not in _GIVEN_UP or most_given_up <= len(given_up):
            raise StageError(_failure(task, reply, given_up))
        if careful and reply.stage:
            given_up[reply.stage] = _GIVEN_UP[reply.kind]
        elif careful:
            raise StageError(_failure(task, reply, given_up))
        careful = True


def _failure(task: Task, reply: Reply, given_up: Mapping[str, str]) -> str:
    place = f" at {reply.stage}" if reply.stage else ""
    more = f", after {len(given_up)} documents were given up" if given_up else ""
    kind = reply.kind.name.lower().replace("_", " ")
    return f"{task.name}: {kind}{place}{more}: {reply.reason}"
