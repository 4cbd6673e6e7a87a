import threading
import time

import pytest

from dph.errors import VerifierError
from dph.model.sampler.graded import LARGEST_CALL, BackgroundGrading
from dph.records import Outcome, Problem, Verdict

PROBLEM = Problem(problem_id="p", prompt="?")
SOON = 10


def verdict_of(response):
    return Verdict(outcome=Outcome.WRONG, reward=0.0, reason=response)


class Grader:
    """Grades when it is let; knows the thread and size of every call."""

    def __init__(self, *, held=False):
        self.calls = []
        self.started, self.let = threading.Event(), threading.Event()
        if not held:
            self.let.set()

    def __call__(self, _problems, responses):
        self.calls.append((threading.current_thread().name, len(responses)))
        self.started.set()
        assert self.let.wait(SOON)
        return [verdict_of(response) for response in responses]


def grading_threads():
    return [t for t in threading.enumerate() if t.name.startswith("dph-grading")]


def test_every_answer_gets_its_own_verdict_whatever_the_order():
    keys = [(i % 7, i) for i in range(300)]
    with BackgroundGrading(Grader()) as grading:
        for key in keys:
            grading.submit(key, PROBLEM, str(key))
        assert grading.verdicts() == {key: verdict_of(str(key)) for key in keys}
    assert not grading_threads()


def test_answers_are_graded_while_others_are_still_awaited():
    grader = Grader()
    with BackgroundGrading(grader) as grading:
        grading.submit((0, 0), PROBLEM, "first")
        assert grader.started.wait(SOON)
        assert grader.calls == [("dph-grading_0", 1)]
        grading.submit((0, 1), PROBLEM, "second")
        assert len(grading.verdicts()) == 2


def test_what_gathered_behind_a_call_is_graded_at_the_end_by_whoever_asks():
    grader = Grader(held=True)
    with BackgroundGrading(grader) as grading:
        grading.submit((0, 0), PROBLEM, "slow")
        assert grader.started.wait(SOON)
        for i in range(LARGEST_CALL + 1):
            grading.submit((1, i), PROBLEM, "quick")
        threading.Timer(0.05, grader.let.set).start()
        assert len(grading.verdicts()) == LARGEST_CALL + 2
    here = threading.current_thread().name
    assert grader.calls == [("dph-grading_0", 1), (here, LARGEST_CALL + 1)]


def test_a_broken_verifier_is_heard_of_at_the_next_answer_or_at_the_end():
    broken = threading.Event()

    def grade(*_):
        broken.set()
        raise VerifierError("no gold")

    def submit_one_and_ask():
        with BackgroundGrading(grade) as grading:
            grading.submit((0, 0), PROBLEM, "a")
            assert broken.wait(SOON)
            grading.verdicts()

    def go_on_submitting():
        with BackgroundGrading(grade) as grading:
            for i in range(1000):
                grading.submit((0, i), PROBLEM, "a")
                time.sleep(0.01)

    for use in (submit_one_and_ask, go_on_submitting):
        with pytest.raises(VerifierError, match="no gold"):
            use()
        assert not grading_threads()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interruption_ends_the_thread_and_grades_no_more(error):
    grader = Grader()

    def interrupted():
        with BackgroundGrading(grader) as grading:
            grading.submit((0, 0), PROBLEM, "a")
            assert grader.started.wait(SOON)
            raise error

    with pytest.raises(error):
        interrupted()
    assert not grading_threads()
    assert len(grader.calls) == 1


def test_a_verifier_that_gives_too_few_verdicts_is_an_error():
    def ask():
        with BackgroundGrading(lambda *_: []) as grading:
            grading.submit((0, 0), PROBLEM, "a")
            grading.verdicts()

    with pytest.raises(ValueError, match="shorter"):
        ask()
