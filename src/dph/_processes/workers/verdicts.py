"""The one place that turns a worker's reply into an outcome.

It stands here and not with the verifiers because it belongs to the protocol: what is answered is
``(outcome, reward, reason)``, what ends in the stage ``GOLD_STAGE`` is the gold's doing, what a
worker could not do at all is an error. Which answer has which outcome is the handlers' affair.
"""

from dph._processes.workers.process import Reply, ReplyKind
from dph.errors import VerifierError
from dph.records import Outcome, Verdict

GOLD_STAGE = "gold"
"""The stage in which a handler works on the gold alone, before it looks at the answer."""


def verdict_of(reply: Reply, *, verifier: str, subject: str) -> Verdict:
    """The verdict that a handler answered, or the one that says how its worker ended.

    Raises:
        VerifierError: the handler raised, or no worker could be started; it names ``verifier``
            and ``subject``, what was to be graded.
    """
    ending = how_it_ended(reply, verifier=verifier, subject=subject)
    if ending is None:
        outcome, reward, reason = reply.value
        return Verdict(outcome=Outcome(outcome), reward=reward, reason=reason)
    return Verdict(outcome=ending, reward=0.0, reason=why_it_ended(reply))


def how_it_ended(reply: Reply, *, verifier: str, subject: str) -> Outcome | None:
    """None if the handler answered, else what it means that its worker was killed or died.

    Raises:
        VerifierError: the handler raised, or no worker could be started.
    """
    match reply.kind:
        case ReplyKind.OK:
            return None
        case ReplyKind.TIMED_OUT | ReplyKind.CRASHED if reply.stage == GOLD_STAGE:
            return Outcome.BAD_GOLD
        case ReplyKind.TIMED_OUT:
            return Outcome.TIMED_OUT
        case ReplyKind.CRASHED:
            return Outcome.CRASHED
        case ReplyKind.ERROR | ReplyKind.FAILED:
            raise VerifierError(
                f"the verifier {verifier!r} failed on {subject[:80]!r}: {reply.reason}"
            )


def why_it_ended(reply: Reply) -> str:
    """The reason that goes with ``how_it_ended``."""
    return f"the gold failed: {reply.reason}" if reply.stage == GOLD_STAGE else reply.reason
