"""Tasks as jobs of a cluster. Inputs and outputs must lie where every machine of it sees them."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._processes.jobs.job import Job, Jobs
from dph._processes.workers import WorkerPool
from dph.corpus.task import SECONDS, Notes, Task, answer_of
from dph.errors import StageError

Done = Callable[[Task, dict[str, Any]], None]
"""Told of a task that was done, and of its answer."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is done with each task: the handler of a worker, and documents that it may cost."""

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
                    f"{task.name} was done elsewhere, and its files are not at {notes.path(task)}: "
                    "the directory has to be one that every machine of the cluster writes to"
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
