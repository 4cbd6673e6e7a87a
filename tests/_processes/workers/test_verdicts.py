import pytest

from dph._processes.workers.pool import GOLD_STAGE, verdict_of
from dph._processes.workers.process import Reply, ReplyKind
from dph.errors import VerifierError
from dph.records import Outcome, Verdict


@pytest.mark.parametrize(
    ("reply", "outcome", "reason"),
    [
        (Reply(ReplyKind.CRASHED, reason="x"), Outcome.CRASHED, "x"),
        (Reply(ReplyKind.CRASHED, reason="x", stage="prediction"), Outcome.CRASHED, "x"),
        (
            Reply(ReplyKind.CRASHED, reason="x", stage=GOLD_STAGE),
            Outcome.BAD_GOLD,
            "the gold failed: x",
        ),
        (
            Reply(ReplyKind.TIMED_OUT, reason="x", stage=GOLD_STAGE),
            Outcome.BAD_GOLD,
            "the gold failed: x",
        ),
        (Reply(ReplyKind.TIMED_OUT, reason="x"), Outcome.TIMED_OUT, "x"),
    ],
)
def test_how_a_worker_ended_decides_the_outcome(reply, outcome, reason):
    verdict = verdict_of(reply, verifier="sql", subject="SELECT 2")
    assert verdict == Verdict(outcome=outcome, reward=0.0, reason=reason)


def test_what_the_handler_answered_is_the_verdict():
    reply = Reply(ReplyKind.OK, value=["WRONG", 0.5, "half"], stage=GOLD_STAGE)
    verdict = verdict_of(reply, verifier="sql", subject="SELECT 2")
    assert verdict == Verdict(outcome=Outcome.WRONG, reward=0.5, reason="half")


@pytest.mark.parametrize("kind", [ReplyKind.ERROR, ReplyKind.FAILED])
def test_what_a_worker_could_not_do_is_an_error_that_names_verifier_and_subject(kind):
    with pytest.raises(VerifierError, match="'sql' failed on 'SELECT 2': KeyError"):
        verdict_of(Reply(kind, reason="KeyError: 'sql'"), verifier="sql", subject="SELECT 2")
