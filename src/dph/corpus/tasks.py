"""Tasks in worker processes that leave files behind: finished ones are not done again.

Each task names what it is made from (``key``) and the files it writes. When it ends, a note of
both is kept, with the digests of the files. A kill between two tasks costs nothing, one within a
task costs that task.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph.errors import DataError, StageError
from dph.files import make_directory, read_json, sha256, write_json
from dph.workers import Reply, ReplyKind, WorkerPool

_GIVEN_UP = {ReplyKind.TIMED_OUT: "time", ReplyKind.CRASHED: "crash"}
_SECONDS = 3600.0
"""Limit of what a handler does before it announces something, such as sorting."""


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
        self._directory = directory

    def path(self, task: Task) -> Path:
        """Where the note of a task lies."""
        return self._directory / f"{task.name}.json"

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
        make_directory(self._directory)
        write_json(self.path(task), {"key": task.key, "answer": dict(answer)})


def _is(task: Task, name: str, expected: str | None) -> bool:
    if task.folder is None and name not in task.files:
        return False
    path = task.place(name)
    return path.is_file() and sha256(path) == expected


def run_tasks(
    tasks: Sequence[Task],
    notes: Notes,
    *,
    handler: str,
    options: Mapping[str, Any],
    workers: int,
    most_given_up: int = 0,
    on_begin: Callable[[], object] = lambda: None,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> list[dict[str, Any]]:
    """Do the tasks that are not done, and return the answers of all, in order.

    Args:
        tasks: what is to be done.
        notes: where finished tasks are noted.
        handler: ``module:factory`` of the handler in a worker (``dph.workers``).
        options: what the factory gets.
        workers: processes.
        most_given_up: how many documents of a task may be given up because the worker died or ran
            over its time with them. The task is done again without each.
        on_begin: called before the first task, if any has to be done.
        on_progress: told of finished tasks.

    Raises:
        StageError: a task failed; its others are left undone.
    """
    answers = {task.name: notes.read(task) for task in tasks}
    open_tasks = [task for task in tasks if answers[task.name] is None]
    on_progress(len(tasks) - len(open_tasks), "")
    if open_tasks:
        on_begin()
        with (
            WorkerPool(handler=handler, options=options, workers=workers, timeout=_SECONDS) as pool,
            ThreadPoolExecutor(workers) as threads,
        ):

            def do(task: Task) -> None:
                answer = _answer(pool, task, most_given_up)
                notes.write(task, answer)
                answers[task.name] = answer
                on_progress(1, task.title or task.name)

            running = [threads.submit(do, task) for task in open_tasks]
            try:
                done, _ = wait(running, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:  # the rest is not begun, and what runs is ended
                threads.shutdown(wait=False, cancel_futures=True)
                pool.close()
                raise
    return [answer for task in tasks if (answer := answers[task.name]) is not None]


def _answer(pool: WorkerPool, task: Task, most_given_up: int) -> dict[str, Any]:
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
