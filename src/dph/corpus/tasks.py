"""Tasks in worker processes that leave files behind: finished ones are not done again.

Each task names what it is made from (``key``) and the files it writes. When it ends, a note of
both is kept, with the digests of the files. A kill between two tasks costs nothing, one within a
task costs that task.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from dph._processes.jobs.job import Jobs
from dph._processes.workers import WorkerPool
from dph.corpus.task import SECONDS, Notes, Task, answer_of
from dph.corpus.task_jobs import Done, Work, run_as_jobs

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
