"""Interface of a verifier: problems and responses in, verdicts out."""

import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from dph._processes.workers.handler import BoundedCache
from dph._processes.workers.pool import (
    GOLD_STAGE,
    PoolOwner,
    Reply,
    ReplyKind,
    WorkerPool,
    verdict_of,
    why_it_ended,
)
from dph.records import Outcome, Problem, TimedVerdict, Verdict


@runtime_checkable
class Verifier(Protocol):
    """Grades responses. A bad answer is data (a verdict); a broken verifier raises.

    ``name``, ``version`` and ``settings`` go into every artefact that depends on the verdicts
    (``verifier_identity``); a change of a rule changes the version.

    ``grade`` is called from one thread at a time, but not always from the same one: answers are
    graded while others are still being drawn. What belongs to the thread that made it (an SQLite
    connection, say) is made inside ``grade``. A verdict depends only on its pair, not on what
    else is in the call.
    """

    name: str
    version: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """Other inputs that decide the verdicts, as JSON: time limit, rule, phrases, databases ...

        What only changes the speed, such as the number of workers, is left out.
        """

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem lacks what the verifier needs.
            VerifierError: the verifier itself broke.
        """

    def close(self) -> None:
        """Stop the worker processes, if there are any. Closing twice is harmless."""


def verifier_identity(verifier: Verifier) -> dict[str, Any]:
    """All that the verdicts of a verifier depend on: its name, its version and its settings.

    Verdicts of another identity must not pass for those of this one. A class that was written
    without ``settings`` has none.
    """
    settings: Mapping[str, Any] = getattr(verifier, "settings", {})
    return {"name": verifier.name, "version": verifier.version, "settings": dict(settings)}


Gold = Mapping[str, Any]
"""Fields that make a problem whose gold answer is some model's answer."""


class ComparingVerifier(Verifier, Protocol):
    """A verifier by which answers can be compared with each other.

    It may have ``silent_golds``, which say nothing: what equals one of them is no result. They are
    graded against first, so that an answer that cannot be evaluated is never made a gold.
    """

    def gold_of(self, response: str) -> Gold | None:
        """The gold that an answer makes; None where nothing in it can be taken as one."""


def refused(outcome: Outcome, reason: str) -> Verdict:
    return Verdict(outcome=outcome, reward=0.0, reason=reason)


Pair = TypeVar("Pair")


class PooledVerifier(PoolOwner, Generic[Pair]):
    """A verifier that has pairs judged in worker processes.

    A problem and a response make a pair, or the verdict on them where there is nothing to judge.
    """

    name: str

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem lacks what the verifier needs.
            VerifierError: a worker failed; not: an answer did.
        """
        asked = zip(problems, responses, strict=True)
        return [judged.verdict for judged in self.judge([self._pair(*each) for each in asked])]

    def judge(self, pairs: Sequence[Pair | Verdict]) -> list[TimedVerdict]:
        """A verdict for each pair, in order; one that is there already stays."""
        asked = [pair for pair in pairs if not isinstance(pair, Verdict)]
        judged = []
        for reply, pair in zip(self._replies(asked), asked, strict=True):
            verdict = verdict_of(reply, verifier=self.name, subject=self._subject(pair))
            judged.append(TimedVerdict(verdict, reply.seconds))
        rest = iter(judged)
        return [TimedVerdict(p, 0.0) if isinstance(p, Verdict) else next(rest) for p in pairs]

    def _pair(self, problem: Problem, response: str) -> Pair | Verdict:
        raise NotImplementedError

    def _replies(self, pairs: list[Pair]) -> list[Reply]:
        raise NotImplementedError

    def _subject(self, pair: Pair) -> str:
        raise NotImplementedError


class OneAtATime:
    """Hands calls from several threads to a verifier, one after another.

    ``Verifier.grade`` is called from one thread at a time; so answers that are graded in several
    threads at once go through this.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.name, self.version = verifier.name, verifier.version
        self._verifier, self._lock = verifier, Lock()

    @property
    def settings(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = verifier_identity(self._verifier)["settings"]
        return settings

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        with self._lock:
            return self._verifier.grade(problems, responses)

    def close(self) -> None:
        self._verifier.close()


# A worker runs or reads a gold for itself, because what comes of it stays there. On a busy machine
# a gold may thus fail in one worker and not in another. Here it is decided what counts:
#
# * A gold that worked once is good, for every worker and from then on.
# * One that failed in its stage (too slow, too large, the worker died) is tried once more, by one
#   worker, with ``RETRY_FACTOR`` times the limit. If it fails again it is bad, for every worker.
# * Where a good gold fails all the same, the outcome is TIMED_OUT or CRASHED, which says nothing
#   of the gold.
#
# A gold that fails in any other way (SQL that does not run, say) fails everywhere alike.

RETRY_FACTOR = 3.0
_REMEMBERED = 65536
_GOOD = ""

Request = Mapping[str, Any]


class GoldJudge:
    """Runs requests on a pool; what they say of a gold is the same for all. From any thread.

    Two fields of a request are added for the handler: ``gold_seconds`` is a longer limit for the
    gold, ``bad_gold`` the reason why it is known to be bad and need not be tried. A handler that
    failed on a gold and might not fail again leaves its reply in the stage ``GOLD_STAGE``, the
    shared stage of ``pool``. ``seconds`` is the usual limit for a gold.
    """

    def __init__(self, pool: WorkerPool, *, seconds: float) -> None:
        self._pool = pool
        self._longer = RETRY_FACTOR * seconds
        self._lock = threading.Lock()
        self._settled: BoundedCache[Hashable, str] = BoundedCache(_REMEMBERED)
        self._any_bad = False

    def run(self, requests: Sequence[Request], golds: Sequence[Hashable]) -> list[Reply]:
        """One reply for each request, in order; ``golds`` says which gold each of them has."""
        call = _Call(requests, golds)
        self._ask(call, range(len(requests)))
        if late := call.late():
            self._decide(call)
            self._ask(call, call.late(), longer=True)
        if self._any_bad:  # whatever was answered before that was known
            bad = [i for i, gold in enumerate(golds) if self._known(gold)]
            self._ask(call, [i for i in bad if i not in call.told])
        return [_not_the_golds_doing(reply) for reply in call.replies] if late else call.replies

    def _decide(self, call: "_Call") -> None:
        """Give each undecided gold that failed one more try, by one request."""
        while first := {
            call.golds[i]: i for i in call.late() if self._known(call.golds[i]) is None
        }:
            self._ask(call, first.values(), longer=True)
            for gold, index in first.items():
                if _failed_on_gold(call.replies[index]):
                    self._settle(gold, _why_bad(call.replies[index]))

    def _ask(self, call: "_Call", indices: Iterable[int], *, longer: bool = False) -> None:
        """Send some requests, put the replies in their places, and note which golds worked."""
        chosen = list(indices)
        requests: list[Request] = []
        keys: list[Hashable | None] = []
        for index in chosen:
            request, gold = call.requests[index], call.golds[index]
            if self._any_bad and (reason := self._known(gold)):
                call.told.add(index)
                requests.append({**request, "bad_gold": reason})
                keys.append(None)
            elif longer:
                requests.append({**request, "gold_seconds": self._longer})
                keys.append(None)
            else:
                requests.append(request)
                keys.append(gold)
        for index, reply in zip(chosen, self._pool.run(requests, keys=keys), strict=True):
            call.replies[index] = reply
            if _gold_worked(reply):
                self._settle(call.golds[index], _GOOD)

    def _known(self, gold: Hashable) -> str | None:
        """Why a gold is bad, '' for a good one, None where that is not decided."""
        with self._lock:
            return self._settled.get(gold)

    def _settle(self, gold: Hashable, verdict: str) -> None:
        with self._lock:
            if self._settled.get(gold) is None:
                self._settled.put(gold, verdict)
                self._any_bad = self._any_bad or verdict != _GOOD


class _Call:
    """The requests of one call of ``run``, and the latest reply to each."""

    def __init__(self, requests: Sequence[Request], golds: Sequence[Hashable]) -> None:
        self.requests = requests
        self.golds = golds
        self.replies = [Reply(ReplyKind.FAILED, reason="it was not asked")] * len(requests)
        self.told: set[int] = set()
        """The requests that were told that their gold is bad."""

    def late(self) -> list[int]:
        """The requests whose gold failed, and might not fail again."""
        return [index for index, reply in enumerate(self.replies) if _failed_on_gold(reply)]


def _failed_on_gold(reply: Reply) -> bool:
    return reply.stage == GOLD_STAGE and reply.kind is not ReplyKind.ERROR


def _gold_worked(reply: Reply) -> bool:
    """True if the gold was successfully run or read for this reply."""
    if reply.stage in ("", GOLD_STAGE):
        return False
    return reply.kind is not ReplyKind.OK or reply.value[0] != Outcome.BAD_GOLD


def _why_bad(reply: Reply) -> str:
    return str(reply.value[2]) if reply.kind is ReplyKind.OK else why_it_ended(reply)


def _not_the_golds_doing(reply: Reply) -> Reply:
    """A reply that failed on a good gold, as one that says nothing of it.

    Requests with a bad gold were told so, and were answered without a stage.
    """
    if not _failed_on_gold(reply):
        return reply
    kind = ReplyKind.CRASHED if reply.kind is ReplyKind.CRASHED else ReplyKind.TIMED_OUT
    reason = f"the gold worked before, but not this time: {_why_bad(reply)}"
    return replace(reply, kind=kind, reason=reason, stage="")
