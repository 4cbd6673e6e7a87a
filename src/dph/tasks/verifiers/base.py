"""Interface of a verifier: problems and responses in, verdicts out."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from dph._processes.workers.pool import Pooled, Reply, verdict_of
from dph.records import Problem, TimedVerdict, Verdict


@runtime_checkable
class Verifier(Protocol):
    """Grades responses. A bad answer is data (a verdict); a broken verifier raises.

    ``name``, ``version`` and ``settings`` go into every artefact that depends on the verdicts
    (``verifier_identity``); a change of a rule changes the version.

    ``grade`` is called from one thread at a time, but not always from the same one: answers are
    graded while others are still being drawn. What belongs to the thread that made it (an SQLite
    connection, say) is made inside ``grade``. A verdict depends on its pair alone, not on what
    else is in the call.
    """

    name: str
    version: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """Other inputs that decide the verdicts, as JSON: time limit, rule, phrases, databases ...

        What only changes the speed, such as the number of workers, is left out.
        """
        ...

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem lacks what the verifier needs.
            VerifierError: the verifier itself broke.
        """
        ...

    def close(self) -> None:
        """Stop the worker processes, if there are any. Closing twice is harmless."""
        ...


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
        ...


Pair = TypeVar("Pair")


class PooledVerifier(Pooled, Generic[Pair]):
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
        replies = zip(self._replies(asked), asked, strict=True)
        judged = (
            TimedVerdict(
                verdict_of(reply, verifier=self.name, subject=self._subject(pair)), reply.seconds
            )
            for reply, pair in replies
        )
        return [
            TimedVerdict(pair, 0.0) if isinstance(pair, Verdict) else next(judged) for pair in pairs
        ]

    def _pair(self, problem: Problem, response: str) -> Pair | Verdict:
        raise NotImplementedError

    def _replies(self, pairs: list[Pair]) -> list[Reply]:
        raise NotImplementedError

    def _subject(self, pair: Pair) -> str:
        """The name of a pair in a message about a worker that failed."""
        raise NotImplementedError


class OneAtATime:
    """Hands calls to a verifier one after another, whoever makes them.

    ``Verifier.grade`` is called from one thread at a time; so answers that are graded in several
    threads at once go through this.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.name, self.version = verifier.name, verifier.version
        self._verifier, self._lock = verifier, Lock()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Those of the verifier."""
        settings: Mapping[str, Any] = verifier_identity(self._verifier)["settings"]
        return settings

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order."""
        with self._lock:
            return self._verifier.grade(problems, responses)

    def close(self) -> None:
        """Stop the verifier's worker processes."""
        self._verifier.close()
