"""Answers to one problem compared with each other: which agree, and which contradict themselves."""

import json
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from dph._base.import_path import load_callable, require_one_module, source_fingerprint
from dph._processes.workers.handler import Handler, TellStage
from dph._processes.workers.pool import PoolOwner, ReplyKind, WorkerPool
from dph.errors import DataError, SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.base import ComparingVerifier, Gold, Verifier, verifier_identity
from dph.tasks.verifiers.function import describe_crash, request_of, requested_problem
from dph.tasks.verifiers.table import VERIFIERS

Classes = tuple[int | None, ...]
"""Of the answers to one prompt: those of one number agree; None has no result. Numbers count from
0 in the order in which the classes first occur."""


def largest_class(classes: Classes) -> int | None:
    """The class that most answers are of, the first of several; None where there is no class.

    >>> largest_class((None, 0, 1, 1, 0)), largest_class((None,))
    (0, None)
    """
    sizes = Counter(number for number in classes if number is not None)
    return sizes.most_common(1)[0][0] if sizes else None  # of equal ones the first counted


CRASH_LIMIT = 0.5
"""Share of the answers over which the function may raise; more and it is the function's fault."""


class KeyComparer(PoolOwner):
    """Calls ``f(response, problem)``, which returns a key or None, in worker processes.

    A key is a text, a number, a bool, or a list or tuple of those. An answer over which the
    function raises, or takes longer than ``timeout``, has no result.
    """

    def __init__(
        self, path: str, *, workers: int = 1, timeout: float = 5.0, directories: Sequence[Path] = ()
    ) -> None:
        self._path = path
        require_one_module(path, directories)
        self._pool = WorkerPool(
            handler="dph.tasks.agreement:make_key_reader",
            options={"path": path, "directories": [str(d.resolve()) for d in directories]},
            workers=workers,
            timeout=timeout,
        )
        self._pool.start(f"the agreement {path!r}")
        version = source_fingerprint(path.partition(":")[0], directories)
        self.identity = {"name": path, "version": version, "settings": {"timeout": float(timeout)}}

    def classes(
        self, problems: Sequence[Problem], answers: Sequence[Sequence[str | None]]
    ) -> list[Classes]:
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

    def _keys(self, pairs: Sequence[tuple[Problem, str]]) -> list[str | None]:
        replies = self._pool.run([request_of(problem, response) for problem, response in pairs])
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
    """Keys as numbers, in the order in which they first occur."""
    numbers = {key: i for i, key in enumerate(dict.fromkeys(k for k in keys if k is not None))}
    return tuple(None if key is None else numbers[key] for key in keys)


def plain_key(value: Any) -> Any:
    """A key as JSON; 1, 1.0 and True are three keys."""
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [plain_key(part) for part in value]
    raise TypeError(
        f"it returned {value!r:.80} ({type(value).__name__}); a key is text, a finite number, a "
        f"bool, or a list of those, and None means no result"
    )


def make_key_reader(options: Mapping[str, Any]) -> Handler:
    """The worker's handler of the function at a path, its module in directories.

    It answers requests by ``[crash, key]``: ``crash`` is '' where the function returned; ``key`` is
    JSON text or None.
    """
    directories = [Path(directory) for directory in options["directories"]]
    function = load_callable(options["path"], directories)

    def read(request: Mapping[str, Any], _stage: TellStage) -> tuple[str, str | None]:
        problem = requested_problem(request)
        try:
            value = function(request["response"], problem)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the answer's doing, mostly
            return describe_crash(error), None
        return "", None if value is None else json.dumps(plain_key(value), sort_keys=True)

    return read


# Agreement by a verifier: an answer agrees with another if it is right where that one is the gold.
#
# For every class the first answer in it stands for all of it: answer i is of the class of the first
# representative r with grade(answer i, gold made of r) = CORRECT. So n answers with m results take
# at most n m gradings instead of n squared, and equal answers are graded once. Where a verifier's
# equality is not transitive (a tolerance, partial rewards), this order decides.

GOLDS = tuple(name for name, row in VERIFIERS.items() if row.compares)
"""The verifiers that can compare answers."""


def compares(verifier: Verifier) -> TypeGuard[ComparingVerifier]:
    """True if answers can be compared by this verifier."""
    return verifier.name in GOLDS


class VerifierComparer:
    """Classes by a verifier of ``GOLDS``; the caller closes the verifier."""

    def __init__(self, verifier: Verifier) -> None:
        if not compares(verifier):
            raise SettingsError(
                f"the verifier {verifier.name!r} cannot compare two answers; these can: "
                f"{', '.join(GOLDS)}"
            )
        self._verifier: ComparingVerifier = verifier

    @property
    def identity(self) -> dict[str, Any]:
        return verifier_identity(self._verifier)

    def classes(
        self, problems: Sequence[Problem], answers: Sequence[Sequence[str | None]]
    ) -> list[Classes]:
        groups = []
        for problem, responses in zip(problems, answers, strict=True):
            group = _Group(problem, [None] * len(responses))
            for index, response in enumerate(responses):
                gold = None if response is None else self._verifier.gold_of(response)
                if gold is not None and response is not None:
                    key = json.dumps(gold, sort_keys=True)
                    group.keys[index] = key
                    group.results.setdefault(key, (response, gold))
            group.open = list(group.results)
            groups.append(group)
        self._leave_out_silent(groups)
        while waiting := [group for group in groups if group.open]:
            self._next_class(waiting)
        return [group.classes() for group in groups]

    def _leave_out_silent(self, groups: Sequence["_Group"]) -> None:
        silent: tuple[Gold, ...] = getattr(self._verifier, "silent_golds", ())
        for gold in silent:
            asked = [(group, key) for group in groups for key in group.open]
            verdicts = self._grade([(group, group.results[key], gold) for group, key in asked])
            for (group, key), verdict in zip(asked, verdicts, strict=True):
                if verdict.outcome is Outcome.BAD_GOLD:
                    raise DataError(
                        f"answers to {group.problem.problem_id!r} cannot be compared: "
                        f"{verdict.reason}"
                    )
                if verdict.outcome is not Outcome.WRONG:  # it says nothing, or cannot be evaluated
                    group.open.remove(key)

    def _next_class(self, groups: Sequence["_Group"]) -> None:
        """Let the first open answer of every group be a gold for the open ones, itself included."""
        asked = [(group, key) for group in groups for key in group.open]
        first = {id(group): group.open[0] for group in groups}
        pairs = [(g, g.results[key], g.results[first[id(g)]][1]) for g, key in asked]
        verdicts = self._grade(pairs)
        for (group, key), verdict in zip(asked, verdicts, strict=True):
            representative = first[id(group)]
            if key == representative:  # comes first of its group
                group.open.remove(key)
                if verdict.outcome is Outcome.CORRECT:
                    group.members[key] = key
            elif representative in group.members and verdict.outcome is Outcome.CORRECT:
                group.members[key] = representative
                group.open.remove(key)

    def _grade(self, asked: Sequence[tuple["_Group", "_Result", Gold]]) -> list[Verdict]:
        problems = [replace(g.problem, answer={**g.problem.answer, **gold}) for g, _, gold in asked]
        return self._verifier.grade(problems, [response for _, (response, _), _ in asked])


_Result = tuple[str, Gold]
"""The first response that gives a result, and that result as a gold."""


@dataclass(slots=True)
class _Group:
    """The answers to one problem while they are put into classes; results are named by a key."""

    problem: Problem
    keys: list[str | None]
    """Of every answer, its result."""
    results: dict[str, _Result] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    members: dict[str, str] = field(default_factory=dict)
    """Results with a class, and the result that stands for it."""

    def classes(self) -> Classes:
        return _classes([None if key is None else self.members.get(key) for key in self.keys])


Comparer = KeyComparer | VerifierComparer
"""Puts answers to one prompt into classes, deterministically; other prompts change nothing.

``identity`` is all that the classes depend on, as JSON.
"""


_OF_THE_MACHINE = frozenset({Outcome.TIMED_OUT, Outcome.OVER_LIMIT, Outcome.CUT_OFF})
"""Outcomes that may differ between two tries of a sound verifier."""
_TOLD: set[str] = set()
"""Verifiers whose contradictions were told in this process."""
logger = logging.getLogger(__name__)


Graded = Iterable[tuple[str, str, Outcome]]
"""Problem, answer and outcome."""


def warn_of_contradictions(verifier: str, graded: Graded) -> None:
    """Warn, once for each verifier, of identical answers that it gave different verdicts."""
    if verifier not in _TOLD and (said := contradictions(graded)):
        _TOLD.add(verifier)
        logger.warning("the verifier %r gave %s", verifier, said)


def contradictions(graded: Graded) -> str:
    """The number of identical answers with different verdicts, with an example; '' if none.

    >>> print(contradictions([("p", "4", Outcome.CORRECT), ("p", "4", Outcome.WRONG)]))
    2 of 2 identical answers different verdicts, for example '4' to problem 'p' (CORRECT 1, WRONG \
1): it is random, or remembers what it graded before
    """
    seen: defaultdict[tuple[str, str], Counter[Outcome]] = defaultdict(Counter)
    for problem, answer, outcome in graded:
        if outcome not in _OF_THE_MACHINE:
            seen[problem, answer][outcome] += 1
    repeated = {key: verdicts for key, verdicts in seen.items() if verdicts.total() > 1}
    torn = {key: verdicts for key, verdicts in repeated.items() if len(verdicts) > 1}
    if not torn:
        return ""
    (problem, answer), verdicts = next(iter(torn.items()))
    count, of = (sum(found.total() for found in some.values()) for some in (torn, repeated))
    said = ", ".join(f"{outcome} {verdicts[outcome]}" for outcome in sorted(verdicts))
    return (
        f"{count} of {of} identical answers different verdicts, for example {answer!r:.80} to "
        f"problem {problem!r:.80} ({said}): it is random, or remembers what it graded before"
    )
