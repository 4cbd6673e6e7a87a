"""The verifier ``reasoning_gym``: the package's own scorers, in processes that can be killed."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from dph._base.provenance import install_command
from dph._processes.workers.pool import GOLD_STAGE, Reply, WorkerPool
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
    if elements := _ELEMENT.findall(response):
        found = elements[-1]
    else:
        found = _PHRASE.split(response)[-1]
    return found.strip() or None


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


def entry_fields(entry: GymEntry) -> dict[str, Any]:
    """The fields of a problem that name its entry."""
    return {f"gym_{name}": value for name, value in asdict(entry).items()}


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
        self.settings: Mapping[str, Any] = {
            "threshold": float(threshold),
            "timeout": float(timeout),
        }
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
        requests = [_request(*pair) for pair in pairs]
        keys = [json.dumps(request["entry"], sort_keys=True) for request in requests]
        return self._pool.run(requests, keys=keys)

    def _subject(self, pair: _Pair) -> str:
        return f"problem {pair[0].problem_id}"


def require_gym(who: str) -> None:
    """Refuse to continue without the package."""
    if find_spec("reasoning_gym") is None:
        raise SettingsError(f"{who} needs the package reasoning-gym: {install_command('gym')}")


def _request(problem: Problem, answer: str) -> dict[str, Any]:
    entry = parse_entry(problem.answer, f"problem {problem.problem_id!r}")
    question = problem.answer.get("gym_question")
    if not isinstance(question, str):
        raise DataError(
            f"the reasoning_gym verifier needs gym_question (str) in problem "
            f"{problem.problem_id!r}, got {question!r:.80}"
        )
    return {"entry": asdict(entry), "question": question, "answer": answer}
