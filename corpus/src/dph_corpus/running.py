"""Running the steps of a stage: in processes, or on all machines that see a store."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, write_json
from dph.errors import DataError
from dph_corpus import remote
from dph_corpus.steps import Notes, Step, answer_of, open_pool, request_of

Done = Callable[[Step, dict[str, Any]], None]
"""Told of a step that was done, and of its answer."""


def run_steps(
    steps: Sequence[Step],
    notes: Path,
    *,
    workers: int,
    most_given_up: int = 0,
    on_begin: Callable[[], object] = lambda: None,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> list[dict[str, Any]]:
    """Do the steps that are not done, and return the answers of all, in order.

    Args:
        steps: what is to be done.
        notes: the directory in which finished steps are noted.
        workers: how many processes here.
        most_given_up: how many documents of a step may be given up because the worker died or ran
            over its time with them. The step is done again without each.
        on_begin: called before the first step, if any has to be done.
        on_progress: told of finished steps.
    """
    noted = Notes(notes)
    answers = {step.name: noted.read(step) for step in steps}
    open_steps = [step for step in steps if answers[step.name] is None]
    on_progress(len(steps) - len(open_steps), "")
    if open_steps:
        on_begin()

        def done(step: Step, answer: dict[str, Any]) -> None:
            answers[step.name] = answer
            on_progress(1, step.title)

        run = _with_others if remote.url_of(notes) else _in_processes
        run(workers, open_steps, noted, most_given_up, done)
    return [answer for step in steps if (answer := answers[step.name]) is not None]


def _in_processes(
    workers: int, steps: Sequence[Step], notes: Notes, most_given_up: int, done: Done
) -> None:
    with open_pool(workers) as pool, ThreadPoolExecutor(workers) as threads:

        def do(step: Step) -> None:
            answer = answer_of(pool, step.name, request_of(step), most_given_up)
            notes.write(step.name, step.key, answer)
            done(step, answer)

        running = [threads.submit(do, step) for step in steps]
        try:
            ended, _ = wait(running, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
        except BaseException:  # the rest is not begun, and what runs is ended
            threads.shutdown(wait=False, cancel_futures=True)
            pool.close()
            raise


# Steps whose files are in a store: a board that other machines read, and what those do.

_BOARD, _STEP, _CLAIM, _ANSWER = "board", ".step.json", ".claim", ".answer.json"
_POLL = 1.0
"""Seconds between two looks at a board."""
BOARDS = (".done", ".work/done", ".spills/.done")
"""Path of the notes of stages, below their directories."""


class Board:
    """The board below ``directory``: a step, a claim of who does it and an answer, a file each."""

    def __init__(self, directory: Path, claims: remote.Claims, title: str = "") -> None:
        self.directory, self._claims, self.title = directory, claims, title

    def post(self, step: Step, most_given_up: int) -> None:
        """Put up a step."""
        self._write(
            f"{step.name}{_STEP}",
            {"key": step.key, "request": request_of(step), "most_given_up": most_given_up},
        )

    def names(self, ending: str) -> set[str]:
        """The steps that have such a file."""
        return _named(remote.names(self.directory), ending)

    def open_steps(self) -> list[str]:
        """The steps without an answer, the last first: who put them up begins with the first."""
        found = remote.names(self.directory)
        return sorted(_named(found, _STEP) - _named(found, _ANSWER), reverse=True)

    def take(self, name: str) -> bool:
        """Take a step, unless somebody is doing it."""
        return self._claims.take(self.directory / f"{name}{_CLAIM}")

    def give_back(self, name: str) -> None:
        """Leave a step to others."""
        self._claims.give_back(self.directory / f"{name}{_CLAIM}")

    def read(self, name: str, ending: str) -> Any:
        """The content of a file; None if it is gone."""
        found = remote.content(self.directory / f"{name}{ending}")
        return None if found is None else json.loads(found)

    def answer(self, name: str, key: str, answer: Mapping[str, Any]) -> None:
        """Say what came of a step."""
        self._write(f"{name}{_ANSWER}", {"key": key, "answer": dict(answer)})
        self.give_back(name)

    def clear(self) -> None:
        """Take everything down."""
        remote.removed(self.directory)

    def _write(self, name: str, value: Any) -> None:
        make_directory(self.directory)
        write_json(self.directory / name, value)
        remote.sent(self.directory / name)


def _named(files: Set[str], ending: str) -> set[str]:
    return {name.removesuffix(ending) for name in files if name.endswith(ending)}


def _with_others(
    workers: int, steps: Sequence[Step], notes: Notes, most_given_up: int, done: Done
) -> None:
    """Do ``steps`` in processes here while other machines do those that they take."""
    left = {step.name: step for step in steps}
    running: dict[Future[dict[str, Any]], Step] = {}

    def end(step: Step, answer: dict[str, Any]) -> None:
        notes.write(step.name, step.key, answer)
        done(left.pop(step.name), answer)

    with (
        open_pool(workers) as pool,
        ThreadPoolExecutor(workers) as threads,
        remote.Claims() as claims,
    ):
        board = Board(notes.directory / _BOARD, claims)
        for step in steps:
            if step.is_movable:
                board.post(step, most_given_up)
        try:
            while left:
                _take_answers(board, left, end)
                mine = {step.name for step in running.values()}
                for step in [step for name, step in left.items() if name not in mine]:
                    if len(running) >= workers:
                        break
                    if not step.is_movable or board.take(step.name):
                        request = request_of(step)
                        future = threads.submit(answer_of, pool, step.name, request, most_given_up)
                        running[future] = step
                if not running:
                    time.sleep(_POLL)
                for future in wait(running, _POLL, FIRST_COMPLETED).done if running else ():
                    step = running.pop(future)
                    if step.name in left:
                        end(step, future.result())
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.close()
            raise
        finally:
            board.clear()


def _take_answers(
    board: Board, left: Mapping[str, Step], end: Callable[[Step, dict[str, Any]], None]
) -> None:
    """End the steps that others have done."""
    for name in board.names(_ANSWER) & set(left):
        found = board.read(name, _ANSWER)
        if found is not None and found["key"] == left[name].key:
            end(left[name], found["answer"])


def help_with(
    directories: Sequence[Path],
    *,
    workers: int,
    idle: float,
    on_progress: Callable[[int, str], object] = lambda _amount, _note: None,
) -> int:
    """Do steps of stages that other machines run, and return how many were done."""
    for directory in directories:
        if remote.url_of(directory) is None:
            raise DataError(
                f"{directory} is a directory of this machine; name one in a store (s3://...)"
            )
    count, since = 0, time.monotonic()
    with (
        open_pool(workers) as pool,
        ThreadPoolExecutor(workers) as threads,
        remote.Claims() as claims,
    ):
        boards = [
            Board(each / place / _BOARD, claims, remote.shown(each))
            for each in directories
            for place in BOARDS
        ]

        def do(board: Board, name: str, posted: Mapping[str, Any]) -> str:
            try:
                answer = answer_of(pool, name, posted["request"], posted["most_given_up"])
            except BaseException:
                board.give_back(name)
                raise
            board.answer(name, posted["key"], answer)
            return f"{board.title}/{name}"

        running: set[Future[str]] = set()
        while running or time.monotonic() - since < idle:
            for board, name in _claimed(boards, workers - len(running)):
                if (posted := board.read(name, _STEP)) is not None:
                    running.add(threads.submit(do, board, name, posted))
            if not running:
                time.sleep(_POLL)
                continue
            ended, running = wait(running, _POLL, FIRST_COMPLETED)
            for future in ended:
                on_progress(1, future.result())
            count, since = count + len(ended), time.monotonic()
    return count


def _claimed(boards: Sequence[Board], most: int) -> Iterator[tuple[Board, str]]:
    """Steps that nobody else does."""
    for board in boards if most else ():
        for name in board.open_steps():
            if board.take(name):
                yield board, name
                most -= 1
                if not most:
                    return
