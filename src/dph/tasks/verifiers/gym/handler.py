"""The worker's side of the verifier ``reasoning_gym``: entries and answers in, verdicts out.

Some of the package's scorers evaluate an answer as Python, by ``eval`` or by sympy's
``parse_expr``, which calls it. In a worker neither runs what a model wrote: ``eval`` reads
only literals, and ``parse_expr`` only expressions.

Only workers import this file: it imports reasoning-gym, which takes a second.
"""

import ast
import contextlib
import json
import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

import reasoning_gym
import sympy

from dph._processes.workers.handler import Handler, TellStage, limit_address_space
from dph._processes.workers.pool import GOLD_STAGE
from dph.records import Outcome
from dph.tasks.verifiers.gym.verifier import MAKING_SECONDS, GymEntry

_SCORE_TOLERANCE = 1e-9
_ENTRIES, _DATASETS = 4096, 64
_REPLACED_EVAL = (
    "algorithmic.binary_matrix",
    "algorithmic.number_sorting",
    "algorithmic.spiral_matrix",
    "algorithmic.string_insertion",
    "games.n_queens",
)
"""Modules of reasoning_gym whose scorers evaluate answers."""
_REPLACED_PARSER = ("games.countdown", "games.puzzle24")
"""Modules that import ``parse_expr`` by name; the others read it from sympy."""
_EXPRESSION = re.compile(r"[A-Za-z0-9_+\-*/^()=,.\s]*")
_ATTRIBUTE = re.compile(r"\.\s*[A-Za-z_]|__")


class GymGrader:
    """Grades requests ``{"entry", "question", "answer"}`` by the entry's own scorer."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def __call__(self, request: Mapping[str, Any], stage: TellStage) -> tuple[str, float, str]:
        stage(GOLD_STAGE, MAKING_SECONDS)
        entry = GymEntry(**request["entry"])
        try:
            dataset, made = made_entry(entry.dataset, entry.index)
        except Exception as error:  # noqa: BLE001 - whatever a task's configuration provokes
            return Outcome.BAD_GOLD, 0.0, f"the entry cannot be made: {_short(error)}"
        if made["question"] != request["question"]:
            asked = f"a different question as entry {entry.index} of {entry.task}"
            reason = f"this version of reasoning-gym asks {asked}: write the problems again"
            return Outcome.BAD_GOLD, 0.0, reason
        stage("answer")
        try:
            score = _score(dataset, made, request["answer"])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - some scorers read right ones only
            return Outcome.INVALID, 0.0, f"its scorer cannot read the answer: {_short(error)}"
        if math.isnan(score) or not -_SCORE_TOLERANCE <= score <= 1 + _SCORE_TOLERANCE:
            return Outcome.CRASHED, 0.0, f"its scorer gave {score}; a score lies in [0, 1]"
        reward = min(max(score, 0.0), 1.0)
        if reward >= self._threshold:
            return Outcome.CORRECT, reward, "" if reward == 1.0 else f"score {reward:g}"
        gold = made["answer"]
        wanted = "" if gold is None else f"; an answer is {str(gold)!r:.100}"
        return Outcome.WRONG, reward, f"score {reward:g}{wanted}"


@lru_cache(maxsize=_ENTRIES)
def made_entry(dataset: str, index: int) -> tuple[Any, Mapping[str, Any]]:
    """A dataset, from its canonical JSON, and one of its entries."""
    made = _made_dataset(dataset)
    with _quiet():
        entry = made[index]
    if entry["answer"] is not None:
        _score(made, entry, entry["answer"])
    return made, entry


def _score(dataset: Any, entry: Mapping[str, Any], answer: str) -> float:
    with _quiet():
        return float(dataset.score_answer(answer, entry))


@lru_cache(maxsize=_DATASETS)
def _made_dataset(text: str) -> Any:
    task, config, seed, size = json.loads(text)
    with _quiet():
        return reasoning_gym.create_dataset(task, seed=seed, size=size, **config)


def make_gym_maker(options: Mapping[str, Any]) -> Handler:
    """The handler that makes entries: [question, answer] of a canonical dataset and a number.

    It runs in a worker as the grader does: some tasks depend on the order of a set, which is the
    same in every worker.
    """
    limit_address_space(options["memory_bytes"])

    def make(request: Any, _stage: TellStage) -> Any:
        _, entry = made_entry(*request)
        answer = entry["answer"]
        return [str(entry["question"]), None if answer is None else str(answer)]

    return make


def make_gym_grader(options: Mapping[str, Any]) -> GymGrader:
    evaluate_nothing()
    limit_address_space(options["memory_bytes"])
    return GymGrader(options["threshold"])


def evaluate_nothing() -> None:
    """Let no scorer of this process run an answer as Python, for the rest of its life."""
    for name in _REPLACED_EVAL:
        _module(name).__dict__["eval"] = lambda text: ast.literal_eval(text.strip())
    parse = sympy.parse_expr

    def parse_expression(text: str, *arguments: Any, **options: Any) -> Any:
        if not _EXPRESSION.fullmatch(text) or _ATTRIBUTE.search(text):
            raise ValueError(f"{text!r:.80} is not an expression")
        return parse(text, *arguments, **options)

    sympy.__dict__["parse_expr"] = parse_expression
    for name in _REPLACED_PARSER:
        _module(name).__dict__["parse_expr"] = parse_expression


def _module(name: str) -> ModuleType:
    return sys.modules[f"reasoning_gym.{name}"]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that scorers give on answers that are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]
