"""Agreement by a function of the user's own: answers with equal keys agree."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dph._base.closing import Closing
from dph._base.import_path import require_one_module, source_fingerprint
from dph._processes.workers.pool import ReplyKind, WorkerPool
from dph.errors import SettingsError, VerifierError
from dph.records import Problem
from dph.tasks.agreement.base import Classes

CRASH_LIMIT = 0.5
"""Share of the answers over which the function may raise; more and it is the function's fault."""


class KeyComparer(Closing):
    """Calls ``f(response, problem)``, which returns a key or None, in worker processes.

    A key is a text, a number, a bool, or a list or tuple of those. An answer over which the
    function raises, or takes longer than ``timeout``, has no result.

    Raises:
        SettingsError: the function cannot be imported by another process, or a setting is out of
            range.
    """

    def __init__(
        self, path: str, *, workers: int = 1, timeout: float = 5.0, directories: Sequence[Path] = ()
    ) -> None:
        self._path = path
        require_one_module(path, directories)
        self._pool = WorkerPool(
            handler="dph.tasks.agreement.key_handler:make_key_reader",
            options={"path": path, "directories": [str(d.resolve()) for d in directories]},
            workers=workers,
            timeout=timeout,
        )
        if reason := self._pool.start():
            self.close()
            raise SettingsError(f"the agreement {path!r} cannot be used: {reason}")
        version = source_fingerprint(path.partition(":")[0], directories)
        self._identity = {"name": path, "version": version, "settings": {"timeout": float(timeout)}}

    @property
    def identity(self) -> dict[str, Any]:
        """The import path, a hash of the function's file, and the time limit."""
        return self._identity

    def classes(
        self, problems: Sequence[Problem], answers: Sequence[Sequence[str | None]]
    ) -> list[Classes]:
        """The classes of the answers to each prompt.

        Raises:
            VerifierError: the function raised over more than half of the answers, or returned
                something that is no key.
        """
        places = [
            (group, index)
            for group, texts in enumerate(answers)
            for index, text in enumerate(texts)
            if text is not None
        ]
        found = self._keys([(problems[g], str(answers[g][i])) for g, i in places])
        keys = dict(zip(places, found, strict=True))
        return [
            _classes([keys.get((group, index)) for index in range(len(texts))])
            for group, texts in enumerate(answers)
        ]

    def close(self) -> None:
        """Stop the worker processes. Closing twice is harmless."""
        self._pool.close()

    def _keys(self, pairs: Sequence[tuple[Problem, str]]) -> list[str | None]:
        replies = self._pool.run(
            [
                {
                    "response": response,
                    "problem_id": problem.problem_id,
                    "prompt": problem.prompt,
                    "answer": dict(problem.answer),
                }
                for problem, response in pairs
            ]
        )
        crashed, keys = [], list[str | None]()
        for reply in replies:
            if reply.kind is ReplyKind.OK and not reply.value[0]:
                keys.append(reply.value[1])
            elif reply.kind is ReplyKind.ERROR or reply.kind is ReplyKind.FAILED:
                raise VerifierError(f"the agreement {self._path!r} failed: {reply.reason}")
            else:
                keys.append(None)
                crashed.append(reply.value[0] if reply.kind is ReplyKind.OK else reply.reason)
        if len(crashed) > CRASH_LIMIT * len(pairs):
            raise VerifierError(
                f"the agreement {self._path!r} failed on {len(crashed)} of {len(pairs)} answers, "
                f"for example: {crashed[0]}"
            )
        return keys


def _classes(keys: Sequence[str | None]) -> Classes:
    numbers = {key: i for i, key in enumerate(dict.fromkeys(k for k in keys if k is not None))}
    return tuple(None if key is None else numbers[key] for key in keys)
