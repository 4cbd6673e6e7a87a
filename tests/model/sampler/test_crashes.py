import pytest

from dph.errors import VerifierError
from dph.model.sampler.graded import CrashCount
from dph.records import Completion, GradedCompletion, Outcome, Verdict


def answers(*outcomes, reason="ValueError: no number"):
    return [
        GradedCompletion(
            completion=Completion(
                problem_id=f"p{i}",
                sample_index=0,
                token_ids=(1,),
                logprobs=(0.0,),
                finished=True,
                text="",
            ),
            verdict=Verdict(outcome=outcome, reward=0.0, reason=reason),
        )
        for i, outcome in enumerate(outcomes)
    ]


CRASHED, WRONG, CUT_OFF = Outcome.CRASHED, Outcome.WRONG, Outcome.CUT_OFF


@pytest.mark.parametrize(
    ("limit", "outcomes"),
    [
        (0.5, [CRASHED, WRONG]),
        (0.25, [CRASHED, WRONG, WRONG, WRONG]),
        (1.0, [CRASHED, CRASHED]),
        (0.0, [WRONG, CUT_OFF]),
        (0.0, []),
    ],
)
def test_up_to_the_limit_a_crash_is_one_verdict(limit, outcomes):
    CrashCount("mine:grade", limit).add(answers(*outcomes))


@pytest.mark.parametrize(
    ("limit", "outcomes"),
    [
        (0.5, [CRASHED, CRASHED, WRONG]),
        (0.5, [CRASHED, CUT_OFF, CUT_OFF, CUT_OFF]),  # the one answer that was graded
        (0.0, [CRASHED, WRONG, WRONG]),
    ],
)
def test_above_the_limit_the_verifier_is_broken(limit, outcomes):
    with pytest.raises(VerifierError, match="'mine:grade' crashed on"):
        CrashCount("mine:grade", limit).add(answers(*outcomes))


def test_the_message_says_how_many_what_is_allowed_and_an_example():
    with pytest.raises(VerifierError) as raised:
        CrashCount("mine:grade", 0.5).add(answers(WRONG, CRASHED, CRASHED))
    message = str(raised.value)
    assert "2 of 3 graded answers, more than data.verifier_crash_limit = 0.5" in message
    assert "problem 'p1': ValueError: no number" in message
    assert "--accept-verifier" in message


def test_of_a_long_traceback_the_end_is_shown():
    with pytest.raises(VerifierError) as raised:
        CrashCount("v", 0.0).add(answers(CRASHED, reason="line\n" * 200 + "KeyError: 'gold'"))
    assert "KeyError: 'gold'" in str(raised.value)
    assert len(str(raised.value)) < 700


def test_calls_that_are_counted_together_share_one_limit():
    count = CrashCount("v", 0.5)
    count.add(answers(WRONG, WRONG, WRONG))
    count.add(answers(CRASHED, CRASHED, CRASHED))
    with pytest.raises(VerifierError, match="4 of 7"):
        count.add(answers(CRASHED))
