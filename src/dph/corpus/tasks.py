"""Tasks in worker processes that leave files behind: finished ones are not done again.

Each task names what it is made from (``key``) and the files it writes. When it ends, a note of
both is kept, with the digests of the files. A kill between two tasks costs nothing, one within a
task costs that task.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, read_json, sha256, write_json
from dph._processes.jobs.processes import Job, Jobs
from dph._processes.workers import Reply, ReplyKind, WorkerPool
from dph.errors import DataError, StageError

# A task: a piece of work that leaves files behind, and the note of what it answered.

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
        """Path of the file of that name."""
        return self.files[name] if self.folder is None else self.folder / name


class Notes:
    """Answers of finished tasks, a file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, task: Task) -> Path:
        """Path of the note of a task."""
        return self.directory / f"{task.name}.json"

    def read(self, task: Task) -> dict[str, Any] | None:
        """Answer of the task, if it was the same and its files are unchanged."""
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
    """Answer of the handler, after giving up documents that cost a worker.

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


# Tasks as jobs of a cluster. Inputs and outputs must lie where every machine of it sees them.

Done = Callable[[Task, dict[str, Any]], None]
"""Told of a task that was done, and of its answer."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work on each task: the handler of a worker, and documents that it may cost."""

    handler: str
    options: Mapping[str, Any]
    most_given_up: int


def run_as_jobs(jobs: Jobs, tasks: Sequence[Task], notes: Notes, work: Work, done: Done) -> None:
    """Have ``jobs`` do ``tasks``, each by ``do_task``; what a task answers is read from its note.

    Raises:
        StageError: a task failed, and the others were ended; or its note is not to be seen here.
    """
    waiting, running = deque(tasks), dict[str, Task]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs.capacity:
                task = waiting.popleft()
                running[task.name] = task
                jobs.start(Job(task.name, _payload(task, notes, work)))
            ended = jobs.wait()
            task = running.pop(ended.id)
            if ended.error:
                raise StageError(ended.error)
            if (answer := notes.read(task)) is None:
                raise StageError(
                    f"{task.name} was done on another machine, and its files are not at "
                    f"{notes.path(task)}: every machine of the cluster must be able to write to "
                    f"the directory"
                )
            done(task, answer)
    except BaseException:
        jobs.close()
        raise


def do_task(payload: Mapping[str, Any]) -> None:
    """Do a task, in a process that may be killed, and write its note: on a machine of the cluster.

    Raises:
        StageError: it failed.
    """
    task = Task(name=payload["name"], key=payload["key"], request=payload["request"])
    with WorkerPool(
        handler=payload["handler"], options=payload["options"], workers=1, timeout=SECONDS
    ) as pool:
        answer = answer_of(pool, task, payload["most_given_up"])
    Notes(Path(payload["notes"])).write(task, answer)


def _payload(task: Task, notes: Notes, work: Work) -> dict[str, Any]:
    return {
        "name": task.name,
        "key": task.key,
        "request": dict(task.request),
        "notes": str(notes.directory.resolve()),
        "handler": work.handler,
        "options": dict(work.options),
        "most_given_up": work.most_given_up,
    }


Workers = int | Jobs
"""Who does tasks: so many processes of this machine, or a cluster that sees the same files."""


def run_tasks(
    tasks: Sequence[Task],
    notes: Notes,
    *,
    handler: str,
    options: Mapping[str, Any],
    workers: Workers,
    most_given_up: int = 0,
    on_begin: Callable[[], object] = lambda: None,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> list[dict[str, Any]]:
    """Do the tasks that are not done, and return the answers of all, in order.

    Args:
        tasks: what is to be done.
        notes: where finished tasks are noted.
        handler: ``module:factory`` of the handler in a worker (``dph._processes.workers``).
        options: what the factory gets.
        workers: how many processes here, or where else tasks are done.
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

        def done(task: Task, answer: dict[str, Any]) -> None:
            answers[task.name] = answer
            on_progress(1, task.title or task.name)

        work = Work(handler, options, most_given_up)
        if isinstance(workers, int):
            _in_processes(workers, open_tasks, notes, work, done)
        else:
            run_as_jobs(workers, open_tasks, notes, work, done)
    return [answer for task in tasks if (answer := answers[task.name]) is not None]


def _in_processes(
    workers: int, tasks: Sequence[Task], notes: Notes, work: Work, done: Done
) -> None:
    with (
        WorkerPool(
            handler=work.handler, options=work.options, workers=workers, timeout=SECONDS
        ) as pool,
        ThreadPoolExecutor(workers) as threads,
    ):

        def do(task: Task) -> None:
            answer = answer_of(pool, task, work.most_given_up)
            notes.write(task, answer)
            done(task, answer)

        running = [threads.submit(do, task) for task in tasks]
        try:
            ended, _ = wait(running, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
        except BaseException:  # the rest is not begun, and what runs is ended
            threads.shutdown(wait=False, cancel_futures=True)
            pool.close()
            raise
