"""Answers graded in a thread of their own while others are drawn, and crashes that are counted."""

import threading
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest

from dph.errors import VerifierError
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import (
    CUT_OFF,
    LARGEST_CALL,
    BackgroundGrading,
    CrashCount,
    GradedSampler,
)
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict

PROBLEM, SOON = Problem(problem_id="p", prompt="?"), 10


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
    with BackgroundGrading(lambda *_: []) as grading:
        grading.submit((0, 0), PROBLEM, "a")
        with pytest.raises(ValueError, match="shorter"):
            grading.verdicts()


def completion_of(problem_id, index=0, *, finished=True):
    return Completion(
        problem_id=problem_id,
        sample_index=index,
        token_ids=(1,),
        logprobs=(-1.0,),
        finished=finished,
        text=f"{problem_id}{index}",
    )


class ScriptedSampler:
    """Hands completions over in order, the last one first, or not at all; every second is cut."""

    def __init__(self, order=1):
        self.order = order

    def sample(self, requests, *_, on_completion, **__):
        groups = [
            [
                completion_of(r.problem_id, i, finished=i != 1)
                for i in range(r.first_index, r.first_index + r.samples)
            ]
            for r in requests
        ]
        told = [(place, c) for place, group in enumerate(groups) for c in group]
        for place, completion in told[:: self.order] if self.order else []:
            on_completion(place, completion)
        return groups


class EchoVerifier:
    """The reason of a verdict is the answer; it crashes over some problems."""

    name, version = "echo", "1"

    def __init__(self, *crashing):
        self.crashing = crashing

    def grade(self, problems, responses):
        return [
            Verdict(
                outcome=Outcome.CRASHED if p.problem_id in self.crashing else Outcome.WRONG,
                reward=0.0,
                reason=f"{p.problem_id}:{response}",
            )
            for p, response in zip(problems, responses, strict=True)
        ]


PROBLEMS = [Problem(problem_id=name, prompt=name) for name in ("a", "b", "c")]


def graded_sampler(order=1, crashing=()):
    return GradedSampler(
        sampler=ScriptedSampler(order),
        verifier=EchoVerifier(*crashing),
        encode=lambda _: (1, 2),
        parameters=SamplingParameters(max_tokens=4, stop_token_ids=()),
        style=lambda text: text[0],
    )


@pytest.mark.parametrize("order", [1, -1, 0])
def test_every_finished_completion_has_its_own_verdict_in_the_order_of_the_requests(order):
    rollout = graded_sampler(order)(PROBLEMS, samples=3, seed=0)
    reasons = [[graded.verdict.reason for graded in group] for group in rollout.groups]
    assert reasons == [[f"{p}:{p}0", CUT_OFF.reason, f"{p}:{p}2"] for p in "abc"]
    assert rollout.groups[1][1].verdict.outcome is Outcome.CUT_OFF
    assert [[graded.style for graded in group] for group in rollout.groups] == [
        [p] * 3 for p in "abc"
    ]
    assert graded_sampler(order)([], samples=2, seed=0).groups == ()


def test_a_sampler_that_breaks_leaves_no_thread_behind():
    class BrokenSampler:
        def sample(self, *_, on_completion, **__):
            on_completion(0, completion_of("a"))
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        replace(graded_sampler(), sampler=BrokenSampler())(PROBLEMS, samples=1, seed=0)
    assert not grading_threads()


def test_crashes_end_a_run_only_above_the_limit_which_calls_of_one_step_share():
    draw = graded_sampler(crashing="b")
    # Of each problem's two answers one is cut off: one graded answer in three crashes.
    assert len(replace(draw, crash_limit=0.34)(PROBLEMS, samples=2, seed=0).groups) == 3
    with pytest.raises(VerifierError, match="crashed on 1 of 3 graded answers"):
        replace(draw, crash_limit=0.3)(PROBLEMS, samples=2, seed=0)
    draw = replace(draw, crash_limit=0.5)
    step = draw.counted_together()
    step([PROBLEMS[0]], samples=1, seed=0)
    step([PROBLEMS[1]], samples=1, seed=0)  # one of two
    with pytest.raises(VerifierError, match="2 of 3"):
        step([PROBLEMS[1]], samples=1, seed=0)
    draw.counted_together()(PROBLEMS, samples=1, seed=0)


def test_answers_are_graded_and_counted_once_however_often_they_are_asked_for():
    step = replace(graded_sampler(crashing="b"), crash_limit=0.5).counted_together()
    with step.begin(PROBLEMS[:2], samples=1, seed=0) as drawn:
        assert drawn.rollout() is drawn.rollout()
    with pytest.raises(VerifierError, match="2 of 3"):
        step([PROBLEMS[1]], samples=1, seed=0)


def answers(*outcomes, reason="ValueError: no number"):
    return [
        GradedCompletion(
            completion=completion_of(f"p{i}"),
            verdict=Verdict(outcome=outcome, reward=0.0, reason=reason),
        )
        for i, outcome in enumerate(outcomes)
    ]


CRASHED, WRONG, OFF = Outcome.CRASHED, Outcome.WRONG, Outcome.CUT_OFF


@pytest.mark.parametrize(
    ("limit", "outcomes", "broken"),
    [
        (0.5, [CRASHED, WRONG], False),
        (0.25, [CRASHED, WRONG, WRONG, WRONG], False),
        (1.0, [CRASHED, CRASHED], False),
        (0.0, [WRONG, OFF], False),
        (0.0, [], False),
        (0.5, [CRASHED, CRASHED, WRONG], True),
        (0.5, [CRASHED, OFF, OFF, OFF], True),  # the one answer that was graded
        (0.0, [CRASHED, WRONG, WRONG], True),
    ],
)
def test_up_to_the_limit_a_crash_is_one_verdict_and_above_it_the_verifier_is_broken(
    limit, outcomes, broken
):
    refused = pytest.raises(VerifierError, match="'mine:grade' crashed on")
    with refused if broken else nullcontext():
        CrashCount("mine:grade", limit).add(answers(*outcomes))


def test_the_message_says_how_many_what_is_allowed_and_the_end_of_an_example():
    with pytest.raises(VerifierError) as raised:
        CrashCount("mine:grade", 0.5).add(answers(WRONG, CRASHED, CRASHED))
    message = str(raised.value)
    assert "2 of 3 graded answers, more than data.verifier_crash_limit = 0.5" in message
    assert "problem 'p1': ValueError: no number" in message
    assert "--accept-verifier" in message
    with pytest.raises(VerifierError, match="KeyError: 'gold'") as raised:
        CrashCount("v", 0.0).add(answers(CRASHED, reason="line\n" * 200 + "KeyError: 'gold'"))
    assert len(str(raised.value)) < 700
