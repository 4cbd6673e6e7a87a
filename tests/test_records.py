from types import MappingProxyType

import pytest

from dph.records import Outcome, Problem, Verdict


@pytest.mark.parametrize("outcome", ["CORRECT", "correct", True, None, 1])
def test_an_outcome_that_is_no_outcome_is_refused_with_what_is_allowed(outcome):
    with pytest.raises(TypeError) as caught:
        Verdict(outcome=outcome, reward=1.0)
    for part in (repr(outcome), "Outcome.CORRECT", "BAD_GOLD"):
        assert part in str(caught.value)


@pytest.mark.parametrize("reward", ["1", None])
def test_a_reward_that_is_no_number_is_refused_with_what_is_allowed(reward):
    with pytest.raises(TypeError, match=rf"a reward is a number in \[0, 1\], got {reward!r}"):
        Verdict(outcome=Outcome.CORRECT, reward=reward)


def test_a_verdict_takes_every_outcome():
    assert [Verdict(outcome=each, reward=0.0).outcome for each in Outcome] == list(Outcome)


@pytest.mark.parametrize("answer", ["42", 42, None, [("answer", "42")]])
def test_an_answer_that_is_no_mapping_is_refused_with_an_example(answer):
    with pytest.raises(TypeError) as caught:
        Problem(problem_id="p 1", prompt="?", answer=answer)
    for part in ("'p 1'", repr(answer), "{'answer': '42'}"):
        assert part in str(caught.value)


@pytest.mark.parametrize("answer", [{}, {"answer": 1}, MappingProxyType({"a": 1})])
def test_any_mapping_is_an_answer(answer):
    assert Problem(problem_id="p", prompt="?", answer=answer).answer == answer
