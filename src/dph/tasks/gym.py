"""Tasks of reasoning-gym as problems: any of its procedurally made datasets, by name.

The package (github.com/open-thought/reasoning-gym, Apache-2.0; arXiv:2505.24760) makes a hundred
tasks with a verifier each. A problem holds the dataset's name, configuration, seed and size and
the entry's number, so all that decides its score is part of the problems' fingerprint.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

from dph._processes.workers.pool import Pooled, ReplyKind, WorkerPool
from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.verifiers.gym.verifier import (
    MAKING_SECONDS,
    MEMORY_BYTES,
    GymEntry,
    entry_fields,
    require_gym,
)

_AT_ONCE = 64
"""Entries that are asked for together; the next are, while some are left out."""

NOT_A_TASK = frozenset({"composite"})
"""Datasets of the package that mix other ones: ask for those one by one."""


def gym_tasks() -> tuple[str, ...]:
    """The names of all tasks that the installed package has, in order."""
    require_gym("a task of reasoning-gym")
    return tuple(sorted(set(_datasets()) - NOT_A_TASK))


class GymMaker(Pooled):
    """Makes problems of tasks, in a worker: a task that hangs or runs out of memory is told of."""

    def __init__(self) -> None:
        require_gym("a task of reasoning-gym")
        self._pool = WorkerPool(
            handler="dph.tasks.verifiers.gym.handler:make_gym_maker",
            options={"memory_bytes": MEMORY_BYTES},
            timeout=MAKING_SECONDS,
        )

    def problems(
        self, task: str, *, count: int, seed: int = 0, config: Mapping[str, Any] | None = None
    ) -> list[Problem]:
        """``count`` problems of a task, the same for the same seed and configuration.

        Entries that ask a question that an earlier one asked are left out and made up for by later
        ones, so fewer than ``count`` come only where the task has no more.

        Args:
            task: a name of ``gym_tasks``.
            count: at least 1.
            seed: of the package's dataset.
            config: settings of the task, as its configuration class calls them.
        """
        require_task(task)
        if count < 1:
            raise SettingsError(f"count must be at least 1, got {count}")
        size = 2 * count
        found: dict[str, Problem] = {}
        for start in range(0, size, _AT_ONCE):
            entries = [
                GymEntry(task=task, config=config or {}, seed=seed, size=size, index=index)
                for index in range(start, min(start + _AT_ONCE, size))
            ]
            for problem in self._made(entries):
                found.setdefault(str(problem.prompt), problem)
            if len(found) >= count:
                break
        return list(found.values())[:count]

    def _made(self, entries: Sequence[GymEntry]) -> Iterator[Problem]:
        replies = self._pool.run([[entry.dataset, entry.index] for entry in entries])
        for entry, reply in zip(entries, replies, strict=True):
            if reply.kind is not ReplyKind.OK:
                _, config = _datasets()[entry.task]
                known = [each.name for each in fields(config) if each.name not in ("seed", "size")]
                raise SettingsError(
                    f"reasoning-gym cannot make {entry.task} with {dict(entry.config)}: "
                    f"{reply.reason}; its settings are {', '.join(known)}"
                )
            question, answer = reply.value
            yield Problem(
                problem_id=f"{entry.task}-{entry.seed}-{entry.index:05}",
                prompt=question,
                answer={"answer": answer, "gym_question": question, **entry_fields(entry)},
            )


def require_task(task: str) -> None:
    """Refuse a name that the package does not have."""
    known = gym_tasks()
    if task not in known:
        near = difflib.get_close_matches(task, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SettingsError(
            f"reasoning-gym has no task {task!r}{hint} (`dph tasks reasoning-gym --list` names "
            f"all {len(known)})"
        )


def parse_config(texts: Sequence[str]) -> dict[str, Any]:
    """Settings of a task from texts ``KEY=VALUE``; a value is TOML, else a text.

    >>> parse_config(["min_terms=2", "operators=['+', '-']", "name=x"])
    {'min_terms': 2, 'operators': ['+', '-'], 'name': 'x'}
    """
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"a setting of a task is KEY=VALUE, got {text!r}")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key.strip()] = value
    return found


def _datasets() -> Mapping[str, tuple[Any, Any]]:
    """The package's classes of datasets and their configurations, by name."""
    found: Mapping[str, tuple[Any, Any]] = import_module("reasoning_gym.factory").DATASETS
    return found
