"""Grading in a thread, while more answers are still being drawn."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from dph._base.closing import Closing
from dph.records import Problem, Verdict

Grade = Callable[[Sequence[Problem], Sequence[str]], list[Verdict]]
Key = tuple[int, int]

LARGEST_CALL = 64
"""Answers of one call in the thread: what an interrupted run may have to wait for."""


class _Answer(NamedTuple):
    key: Key
    problem: Problem
    response: str


class BackgroundGrading(Closing):
    """Grades answers in the order in which they are submitted, one call at a time.

    What has gathered while a call was running is graded by the next one. ``verdicts`` grades what
    is left in the calling thread. Leaving the context ends the thread, whatever happened.
    """

    def __init__(self, grade: Grade) -> None:
        self._grade = grade
        self._verdicts: dict[Key, Verdict] = {}
        self._gathered: list[_Answer] = []
        self._changed = threading.Condition()
        self._ending = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dph-grading")
        self._working = self._thread.submit(self._work)

    def submit(self, key: Key, problem: Problem, response: str) -> None:
        """Queue an answer.

        Raises:
            Exception: what the verifier raised in the thread.
        """
        if self._working.done():
            self._working.result()
        with self._changed:
            self._gathered.append(_Answer(key, problem, response))
            self._changed.notify()

    def verdicts(self) -> dict[Key, Verdict]:
        """All verdicts; waits for the call in flight and grades the rest.

        Raises:
            Exception: what the verifier raised in the thread.
        """
        self.close()
        self._working.result()
        rest, self._gathered = self._gathered, []
        if rest:
            self._store(rest)
        return self._verdicts

    def _work(self) -> None:
        while answers := self._next():
            self._store(answers)

    def _next(self) -> list[_Answer]:
        """What the next call grades; empty at the end."""
        with self._changed:
            while not self._gathered and not self._ending:
                self._changed.wait()
            if self._ending:
                return []
            answers = self._gathered[:LARGEST_CALL]
            del self._gathered[:LARGEST_CALL]
            return answers

    def _store(self, answers: Sequence[_Answer]) -> None:
        found = self._grade([a.problem for a in answers], [a.response for a in answers])
        self._verdicts.update(
            (answer.key, verdict) for answer, verdict in zip(answers, found, strict=True)
        )

    def close(self) -> None:
        """End the thread after the call in flight; what is left is not graded."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.shutdown()
