import pytest

from corpus.tests.synth.answers import HONEST, HOSTILE
from dph.tasks.verifiers.code.verifier import CodeVerifier
from dph_corpus.synth.drafts import FunctionJudge


@pytest.fixture(scope="module")
def judge():
    with CodeVerifier(workers=2, timeout=1.0) as verifier:
        yield FunctionJudge(verifier)


def test_an_honest_answer_is_kept_and_most_of_its_mutants_die(judge):
    (judged,) = judge([HONEST], [""])
    assert (judged.reason, judged.note) == ("", "")
    assert judged.mutants >= 5
    assert judged.killed * 2 >= judged.mutants


@pytest.mark.parametrize("name", HOSTILE)
def test_no_other_answer_is_kept(judge, name):
    answer, reason = HOSTILE[name]
    (judged,) = judge([answer], [""])
    assert judged.reason == reason, judged


def test_answers_are_judged_alike_alone_and_together(judge):
    answers = [HONEST, *(answer for answer, _ in HOSTILE.values() if "while" not in answer)]
    together = judge(answers, [""] * len(answers))
    assert [one.reason for one in together] == [
        judge([answer], [""])[0].reason for answer in answers
    ]


def test_a_program_must_call_what_it_is_about(judge):
    (judged,) = judge([HONEST], ["math.gcd"])
    assert (judged.reason, judged.note) == ("unused", "does not call math.gcd")
