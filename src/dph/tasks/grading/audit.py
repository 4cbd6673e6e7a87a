"""Audit a reward function by responses of known worth, and by calling it again and otherwise.

A function reads a form if it gives a right answer in it more than a wrong one. In those forms every
right answer should get as much, however it is wrapped, and no other response should.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from dph._base.import_path import load_callable
from dph._processes.workers.handler import TellStage
from dph._processes.workers.pool import ReplyKind, WorkerPool
from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.grading.probes import BUILT_IN, Probe, first_probes, probes_of, wrong_answers
from dph.tasks.verifiers.base import Verifier
from dph.tasks.verifiers.function import (
    as_verdict,
    describe_crash,
    request_of,
    requested_problem,
)
from dph.tasks.verifiers.signatures import RewardFunction, Signature, columns_of, signature_of

_SPELLINGS = ("{g}", "${g}$", r"\boxed{{{g}}}", "#### {g}")
_GOLD_COLUMNS = ("answer", "solution", "ground_truth", "target", "gold", "label")
_SLOW_SECONDS = 1.0
_SLOW_IN_THE_MEDIAN = 0.1
_PATIENCE = 60.0
"""Seconds after which no further problem is asked about, and about which answers are asked again.
"""
_EXAMPLES = 3
_BESIDE = ("The answer is unknown. " * 20,)
_UNSTEADY_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Reward:
    """The function's value for one response, or the reason why there is none; time in seconds."""

    value: float | None
    reason: str = ""
    seconds: float = 0.0


Asked = Callable[[Sequence[Probe]], list[Reward]]
OnProgress = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A way in which the function errs: how often, of how many, and examples."""

    kind: str
    count: int
    of: int
    examples: tuple[tuple[Probe, Reward], ...] = ()


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings on a function, and the forms of answers that it reads and does not read."""

    function: str
    signature: str
    reads: tuple[str, ...]
    not_read: tuple[str, ...]
    golds_not_read: tuple[str, ...]
    calls: int
    seconds: float
    findings: tuple[Fault, ...]


def make_handler(
    options: Mapping[str, Any],
) -> Callable[[Mapping[str, Any], TellStage], tuple[float | None, str]]:
    """The worker's handler: the function of ``options["path"]``, whatever its rewards' scale."""
    function = RewardFunction(load_callable(options["path"]))

    def ask(request: Mapping[str, Any], stage: TellStage) -> tuple[float | None, str]:
        del stage
        problem = requested_problem(request)
        try:
            value = function.batch([request["response"], *request["beside"]], problem)[0]
            try:
                return as_verdict(value).reward, ""
            except ValueError:  # outside [0, 1], which an audit reports once
                return float(value), ""
        except (Exception, SystemExit) as error:  # noqa: BLE001
            return None, describe_crash(error)

    return ask


def audit_function(
    path: str,
    *,
    problems: Sequence[Problem] = (),
    timeout: float = 5.0,
    seed: int = 0,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Audit:
    """Audit the reward function ``module:function`` of any signature, in a killable process.

    Args:
        path: import path of the function.
        problems: problems whose ``answer`` or the like is the gold; default: built-in ones.
        timeout: seconds for one call.
        seed: seed of the order of the second calls.
        on_progress: called with the number of problems that are done since, and a few words.
    """
    function = load_callable(path)
    signature = signature_of(function)
    # What a row of problems does not have is the gold.
    given = set(problems[0].answer) if problems else set()
    names = [
        n for n in (*columns_of(function), *([] if problems else _GOLD_COLUMNS)) if n not in given
    ]
    pool = _pool(path, timeout)

    def ask_alone(probe: Probe) -> Reward:
        with _pool(path, timeout) as fresh:
            return _ask(fresh, [probe])[0]

    with pool:
        if reason := pool.start():
            raise SettingsError(f"the function {path!r} cannot be used: {reason}")
        audit = _Auditing(partial(_ask, pool), problems or BUILT_IN, names, seed, on_progress)
        if signature is Signature.TRL:
            audit.ask_in_groups(partial(_ask, pool, beside=_BESIDE))
    return audit.result(path, str(signature), ask_alone)


def _pool(path: str, timeout: float) -> WorkerPool:
    handler = "dph.tasks.grading.audit:make_handler"
    return WorkerPool(handler=handler, options={"path": path}, timeout=timeout)


def _ask(pool: WorkerPool, probes: Sequence[Probe], beside: Sequence[str] = ()) -> list[Reward]:
    """The rewards of probes, each in a call of its own, with ``beside`` after it."""
    requests = [{**request_of(p.problem, p.response), "beside": list(beside)} for p in probes]
    return [
        Reward(reply.value[0], reply.value[1], reply.seconds)
        if reply.kind is ReplyKind.OK
        else Reward(None, reply.reason, reply.seconds)
        for reply in pool.run(requests)
    ]


def audit_verifier(
    verifier: Verifier,
    *,
    problems: Sequence[Problem] = (),
    seed: int = 0,
    on_progress: OnProgress = lambda _amount, _note: None,
) -> Audit:
    """Audit a verifier in the same way."""

    def ask(probes: Sequence[Probe]) -> list[Reward]:
        verdicts = verifier.grade([p.problem for p in probes], [p.response for p in probes])
        return [Reward(float(verdict.reward)) for verdict in verdicts]

    audit = _Auditing(ask, problems or BUILT_IN, [], seed, on_progress)
    return audit.result(verifier.name, "dph")


class _Auditing:
    """Asks, and gathers what was answered."""

    def __init__(
        self,
        ask: Asked,
        problems: Sequence[Problem],
        names: Sequence[str],
        seed: int,
        on_progress: OnProgress,
    ) -> None:
        self._ask, self._names, self._tell = ask, names, on_progress
        self._answers: list[tuple[Probe, Reward]] = []
        self._levels: dict[tuple[str, str], float] = {}
        self._unread: list[str] = []
        self._unlike: list[tuple[Probe, Reward]] = []
        self._in_groups: list[tuple[Probe, Reward]] = []
        golds = {problem.problem_id: gold_of(problem) for problem in problems}
        self._left_out, begun = len(problems), time.monotonic()
        for problem in problems:
            if time.monotonic() - begun > _PATIENCE:
                break
            self._ask_about(problem, golds)
            self._left_out -= 1
            self._tell(1, f"{len(self._answers)} calls")
        self._tell(0, f"{len(self._answers)} calls, now again in another order")
        self._ask_again(random.Random(seed))

    def _ask_about(self, problem: Problem, golds: Mapping[str, str]) -> None:
        gold = golds[problem.problem_id]
        wrong = wrong_answers(gold, golds)
        if not wrong:
            raise SettingsError("an audit needs at least two problems with different answers")
        for spelling in _SPELLINGS if self._names else ("{g}",):
            columns = dict.fromkeys(self._names, spelling.format(g=gold))
            asked = replace(problem, answer={**problem.answer, **columns})
            first = first_probes(asked, gold, wrong)
            rewards = self._ask(first)
            if forms := _levels(first, rewards):
                break
        self._tell(0, f"{len(self._answers) + len(first)} calls")
        self._answers += zip(first, rewards, strict=True)
        if not forms:
            self._unread.append(gold)
            return
        # The reward of an answer without a form is compared with the highest level of a form.
        for form, level in {**forms, "": max(forms.values())}.items():
            self._levels[problem.problem_id, form] = level
        probes = probes_of(asked, gold, wrong, list(forms))
        self._answers += zip(probes, self._ask(probes), strict=True)

    def _ask_again(self, order: random.Random) -> None:
        """Ask all of it once more in another order; the time of a call is the shorter one."""
        places = list(range(len(self._answers)))
        order.shuffle(places)
        places = places[: self._most]
        again = self._ask([self._answers[place][0] for place in places])
        for place, second in zip(places, again, strict=True):
            probe, first = self._answers[place]
            if first.value is not None and second.value is not None and first.value != second.value:
                self._unlike.append((probe, second))
            shorter = min(first.seconds, second.seconds)
            self._answers[place] = probe, replace(first, seconds=shorter)

    @property
    def _most(self) -> int:
        """Answers for whose second call there is patience."""
        seconds = median(reward.seconds for _, reward in self._answers)
        return max(_EXAMPLES, int(_PATIENCE / max(seconds, 1e-6)))

    def ask_in_groups(self, ask: Asked) -> None:
        """Ask about the first answers next to a long one, as a trainer that samples groups does."""
        some = [(probe, reward) for probe, reward in self._answers if probe.kind == "right"]
        some = some[: self._most]
        for (probe, first), second in zip(some, ask([probe for probe, _ in some]), strict=True):
            if first.value is not None and second.value != first.value:
                self._in_groups.append((probe, second))

    def result(
        self, function: str, signature: str, ask_alone: Callable[[Probe], Reward] | None = None
    ) -> Audit:
        """The audit. ``ask_alone`` asks in a process of its own."""
        forms = dict.fromkeys(probe.form for probe, _ in self._answers if probe.form)
        read = {form for _, form in self._levels if form}
        seconds = [reward.seconds for _, reward in self._answers]
        return Audit(
            function=function,
            signature=signature,
            reads=tuple(form for form in forms if form in read),
            not_read=tuple(form for form in forms if form not in read),
            golds_not_read=tuple(self._unread) if read else (),
            calls=2 * len(self._answers),
            seconds=median(seconds),
            findings=tuple(self._findings(bool(read), ask_alone)),
        )

    def _findings(self, reads: bool, ask_alone: Callable[[Probe], Reward] | None) -> list[Fault]:
        found = self._behaviour(ask_alone)
        if len(self._unlike) > _UNSTEADY_SHARE * len(self._answers):
            return found  # the rewards themselves mean nothing then
        if not reads:
            lead = [(p, r) for p, r in self._answers if p.kind == "right" and r.value is not None]
            kind = "no right answer gets more than a wrong one, in any form"
            return [*found, _finding(kind, lead, len(lead))]
        wrongly: dict[str, list[tuple[Probe, Reward]]] = {}
        asked: dict[str, int] = {}
        for probe, reward in self._answers:
            level = self._levels.get((probe.problem.problem_id, probe.form))
            if level is None or reward.value is None or probe.kind == "right":
                continue
            kind = f"{'refused, though right' if probe.right else 'accepted'}: {probe.kind}"
            asked[kind] = asked.get(kind, 0) + 1
            if (reward.value > level) != probe.right:
                wrongly.setdefault(kind, []).append((probe, reward))
        return [*found, *(_finding(kind, some, asked[kind]) for kind, some in wrongly.items())]

    def _behaviour(self, ask_alone: Callable[[Probe], Reward] | None) -> list[Fault]:
        """Calls that ended badly, took long or came out otherwise, and rewards out of range."""
        answers = self._answers
        unlike = "another reward for the same response, after other calls: it keeps a state"
        if ask_alone and any(
            ask_alone(probe).value != ask_alone(probe).value
            for probe, _ in self._unlike[:_EXAMPLES]
        ):
            unlike = "another reward for the same response: it is random"
        typical = median(reward.seconds for _, reward in answers)
        slow = f"it takes {typical:.1f} s an answer"
        if self._left_out:
            slow += f": {self._left_out} problems were left out after {_PATIENCE:.0f} s"
        kinds = {
            slow: answers if typical >= _SLOW_IN_THE_MEDIAN else [],
            "it raised, or gave no number": [a for a in answers if a[1].value is None],
            f"it took longer than {_SLOW_SECONDS:g} s": [
                a for a in answers if a[1].seconds > _SLOW_SECONDS
            ],
            unlike: self._unlike,
            "another reward next to other completions": self._in_groups,
            "a reward outside [0, 1], which dph refuses": [
                a for a in answers if a[1].value is not None and not 0 <= a[1].value <= 1
            ],
        }
        return [_finding(kind, some, len(answers)) for kind, some in kinds.items() if some]


def _levels(probes: Sequence[Probe], rewards: Sequence[Reward]) -> dict[str, float]:
    """The forms that the function reads, with the middle of a right and a wrong answer's reward.

    It reads a form if the right answer gets more than the first wrong one, and no other more.
    """
    levels = {}
    for form in dict.fromkeys(probe.form for probe in probes):
        right, wrong, *others = (
            reward.value
            for probe, reward in zip(probes, rewards, strict=True)
            if probe.form == form
        )
        if right is None or wrong is None or right <= wrong:
            continue
        if all(other is None or other <= right for other in others):
            levels[form] = (right + wrong) / 2
    return levels


def _finding(kind: str, some: Sequence[tuple[Probe, Reward]], of: int) -> Fault:
    return Fault(kind, len(some), of, tuple(some[:_EXAMPLES]))


def gold_of(problem: Problem) -> str:
    """The gold of a problem: its one column, or the first of ``answer``, ``solution`` and so on."""
    answer = problem.answer
    name = next((name for name in _GOLD_COLUMNS if name in answer), None)
    if name is None and len(answer) == 1:
        name = next(iter(answer))
    if name is None:
        raise SettingsError(
            f"problem {problem.problem_id!r} has no gold: one of {', '.join(_GOLD_COLUMNS)} "
            f"is expected, got {', '.join(answer) or 'no column'}"
        )
    return str(answer[name])
