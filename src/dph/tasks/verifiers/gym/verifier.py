"""Tasks of reasoning-gym as problems, and the verifier that scores them by the package itself.

The package (github.com/open-thought/reasoning-gym, Apache-2.0; arXiv:2505.24760) makes a hundred
tasks with a verifier each. A problem holds the dataset's name, configuration, seed and size and
the entry's number, so all that decides its score is part of the problems' fingerprint. Entries are
made, and answers scored, in processes that can be killed.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from dph._base.provenance import install_command
from dph._processes.workers.pool import GOLD_STAGE, PoolOwner, Reply, ReplyKind, WorkerPool
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.base import PooledVerifier
from dph.tasks.verifiers.turn import read_turn

_ELEMENT = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_PHRASE = re.compile(r"\banswer:", re.IGNORECASE)


def gym_answer(response: str) -> str | None:
    """The last ``<answer>`` element, else what follows the last "Answer:", else all of it.

    Blanks around it do not count. None where nothing is left.

    >>> gym_answer("2 + 2 = 4, times 3 = 12. Answer: 12")
    '12'
    >>> gym_answer("<answer> 7 </answer> Answer: 9")
    '7'
    """
    response = read_turn(response).answer
    found: list[str] = _ELEMENT.findall(response) or _PHRASE.split(response)
    return found[-1].strip() or None


MAKING_SECONDS = 60.0
"""Seconds that the package may take to make an entry."""
MEMORY_BYTES = 4_000_000_000
"""The address space of a worker."""
_TYPES = {"gym_task": str, "gym_config": dict, "gym_seed": int, "gym_size": int, "gym_index": int}
"""The fields of a problem that name its entry, which is made again wherever it is needed.

A dataset of the package is a function of its name, its configuration, a seed and a size, so these
and a number are all that a problem holds of an entry. The package's own scorer then reads the very
entry that it made, with every type that JSON would lose.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GymEntry:
    """Entry of a dataset of reasoning-gym that a problem is."""

    task: str
    config: Mapping[str, Any]
    seed: int
    size: int
    index: int

    @property
    def dataset(self) -> str:
        """The dataset it is of, as canonical JSON: equal datasets have equal texts."""
        parts = [self.task, dict(self.config), self.seed, self.size]
        return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def parse_entry(answer: Mapping[str, Any], place: str) -> GymEntry:
    """The entry that a problem names; ``place`` says in messages which problem it is."""
    for name, kind in _TYPES.items():
        value = answer.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DataError(
                f"the reasoning_gym verifier needs {name} ({kind.__name__}) in {place}, got "
                f"{value!r:.80}; `dph tasks reasoning-gym` writes such problems"
            )
    entry = GymEntry(**{name.removeprefix("gym_"): answer[name] for name in _TYPES})
    if not 0 <= entry.index < entry.size:
        raise DataError(
            f"gym_index of {place} must be 0 to {entry.size - 1} (gym_size), got {entry.index}"
        )
    return entry


_NO_ANSWER = Verdict(outcome=Outcome.NO_ANSWER, reward=0.0, reason="the response is empty")


_Pair = tuple[Problem, str]


class GymVerifier(PooledVerifier[_Pair]):
    """Scores the answers to procedurally made tasks as reasoning-gym does.

    The reward is the scorer's, in [0, 1]; an answer is CORRECT from ``threshold`` on. Answers that
    a scorer would evaluate as Python are read as literals or expressions. A problem has the fields
    of ``dph.tasks.verifiers.gym.verifier``; one whose question the installed version of the package
    asks otherwise is BAD_GOLD.

    Args:
        threshold: the least score of a right answer, above 0 and at most 1.
        workers: number of worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: reasoning-gym is missing, or a number is out of range.
    """

    name = "reasoning_gym"

    def __init__(self, *, threshold: float = 1.0, workers: int = 1, timeout: float = 5.0) -> None:
        require_gym(f"the {self.name} verifier")
        if not 0 < threshold <= 1:
            raise SettingsError(
                f"the threshold of {self.name} must be above 0 and at most 1, got {threshold}"
            )
        self.version = f"1 (reasoning-gym {version('reasoning-gym')})"
        settings = {"threshold": float(threshold), "timeout": float(timeout)}
        self.settings: Mapping[str, Any] = settings
        self._pool = WorkerPool(
            handler="dph.tasks.verifiers.gym.handler:make_gym_grader",
            options={"threshold": float(threshold), "memory_bytes": MEMORY_BYTES},
            workers=workers,
            timeout=timeout,
            shared_stage=GOLD_STAGE,
        )

    def _pair(self, problem: Problem, response: str) -> _Pair | Verdict:
        answer = gym_answer(response)
        return _NO_ANSWER if answer is None else (problem, answer)

    def _replies(self, pairs: list[_Pair]) -> list[Reply]:
        requests = []
        for problem, answer in pairs:
            entry = parse_entry(problem.answer, f"problem {problem.problem_id!r}")
            question = problem.answer.get("gym_question")
            if not isinstance(question, str):
                raise DataError(
                    f"the reasoning_gym verifier needs gym_question (str) in problem "
                    f"{problem.problem_id!r}, got {question!r:.80}"
                )
            requests.append({"entry": asdict(entry), "question": question, "answer": answer})
        keys = [json.dumps(request["entry"], sort_keys=True) for request in requests]
        return self._pool.run(requests, keys=keys)

    def _subject(self, pair: _Pair) -> str:
        return f"problem {pair[0].problem_id}"


def require_gym(who: str) -> None:
    """Refuse to continue without the package."""
    if find_spec("reasoning_gym") is None:
        raise SettingsError(f"{who} needs the package reasoning-gym: {install_command('gym')}")


_AT_ONCE = 64
"""Entries that are asked for together; the next are, while some are left out."""

NOT_A_TASK = frozenset({"composite"})
"""Datasets of the package that mix other ones: ask for those one by one."""


def gym_tasks() -> tuple[str, ...]:
    """The names of all tasks that the installed package has, in order."""
    require_gym("a task of reasoning-gym")
    return tuple(sorted(set(_datasets()) - NOT_A_TASK))


class GymMaker(PoolOwner):
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
            name = f"{entry.task}-{entry.seed}-{entry.index:05}"
            own = {f"gym_{field}": value for field, value in asdict(entry).items()}
            own = {"answer": answer, "gym_question": question, **own}
            yield Problem(problem_id=name, prompt=question, answer=own)


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
    found: Mapping[str, tuple[Any, Any]] = import_module("reasoning_gym.factory").DATASETS
    return found
