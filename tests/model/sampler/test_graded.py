import threading
from dataclasses import replace

import pytest

from dph.errors import VerifierError
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import CUT_OFF, GradedSampler
from dph.records import Completion, Outcome, Problem, Verdict

PROBLEMS = [Problem(problem_id=name, prompt=name) for name in ("a", "b", "c")]


def completion_of(request, index):
    return Completion(
        problem_id=request.problem_id,
        sample_index=index,
        token_ids=(1,),
        logprobs=(-1.0,),
        finished=index != 1,
        text=f"{request.problem_id}{index}",
    )


def drawn(requests):
    return [
        [completion_of(request, request.first_index + i) for i in range(request.samples)]
        for request in requests
    ]


class WholeSampler:
    """Hands all completions over at the end."""

    def sample(self, requests, *_, on_completion, **__):
        groups = drawn(requests)
        for position, group in enumerate(groups):
            for completion in group:
                on_completion(position, completion)
        return groups


class SilentSampler:
    """Hands nothing over."""

    def sample(self, requests, *_, **__):
        return drawn(requests)


class BackwardsSampler:
    """Hands completions over one by one, the last one first; ``graded`` lets each next one go."""

    def __init__(self, graded=None):
        self.graded = graded

    def sample(self, requests, *_, on_completion, **__):
        groups = drawn(requests)
        for position in reversed(range(len(groups))):
            for completion in reversed(groups[position]):
                on_completion(position, completion)
                if self.graded and completion.finished:
                    assert self.graded.acquire(timeout=60)
        return groups


class EchoVerifier:
    """The reason of a verdict is the answer; counts those that it has graded."""

    name, version = "echo", "1"

    def __init__(self):
        self.graded = threading.Semaphore(0)

    def grade(self, problems, responses):
        self.graded.release(len(responses))
        return [
            Verdict(outcome=Outcome.WRONG, reward=0.0, reason=f"{problem.problem_id}:{response}")
            for problem, response in zip(problems, responses, strict=True)
        ]

    def close(self):
        pass


def graded_sampler(sampler, verifier=None):
    return GradedSampler(
        sampler=sampler,
        verifier=verifier or EchoVerifier(),
        encode=lambda _: (1, 2),
        parameters=SamplingParameters(max_tokens=4, stop_token_ids=()),
        style=lambda text: text[0],
    )


@pytest.mark.parametrize("sampler", [WholeSampler(), BackwardsSampler(), SilentSampler()])
def test_every_finished_completion_has_its_own_verdict_in_the_order_of_the_requests(sampler):
    rollout = graded_sampler(sampler)(PROBLEMS, samples=3, seed=0)
    reasons = [[graded.verdict.reason for graded in group] for group in rollout.groups]
    assert reasons == [[f"{p}:{p}0", CUT_OFF.reason, f"{p}:{p}2"] for p in "abc"]
    assert rollout.groups[1][1].verdict.outcome is Outcome.CUT_OFF
    assert [[graded.style for graded in group] for group in rollout.groups] == [
        [p] * 3 for p in "abc"
    ]


def test_answers_are_graded_while_others_are_drawn():
    verifier = EchoVerifier()
    behind = graded_sampler(WholeSampler())(PROBLEMS, samples=6, seed=0)
    sampler = BackwardsSampler(graded=verifier.graded)
    assert graded_sampler(sampler, verifier)(PROBLEMS, samples=6, seed=0).groups == behind.groups


def test_a_sampler_that_breaks_leaves_no_thread_behind():
    class BrokenSampler(BackwardsSampler):
        def sample(self, requests, *_, on_completion, **__):
            on_completion(0, completion_of(requests[0], 0))
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        graded_sampler(BrokenSampler())(PROBLEMS, samples=1, seed=0)
    assert not any(thread.name.startswith("dph-grading") for thread in threading.enumerate())


def test_no_problems_are_fine():
    assert graded_sampler(BackwardsSampler())([], samples=2, seed=0).groups == ()


class CrashingVerifier(EchoVerifier):
    """Crashes over some problems."""

    name = "crashing"

    def __init__(self, *problem_ids):
        super().__init__()
        self.problem_ids = problem_ids

    def grade(self, problems, responses):
        return [
            replace(v, outcome=Outcome.CRASHED) if p.problem_id in self.problem_ids else v
            for p, v in zip(problems, super().grade(problems, responses), strict=True)
        ]


def test_crashes_end_a_run_only_above_the_limit():
    draw = graded_sampler(WholeSampler(), CrashingVerifier("b"))
    # Of each problem's two answers one is cut off: one graded answer in three crashes.
    assert len(replace(draw, crash_limit=0.34)(PROBLEMS, samples=2, seed=0).groups) == 3
    with pytest.raises(VerifierError, match="crashed on 1 of 3 graded answers"):
        replace(draw, crash_limit=0.3)(PROBLEMS, samples=2, seed=0)


def test_calls_of_one_step_share_the_limit_and_others_do_not():
    draw = replace(graded_sampler(WholeSampler(), CrashingVerifier("b")), crash_limit=0.5)
    step = draw.counted_together()
    step([PROBLEMS[0]], samples=1, seed=0)
    step([PROBLEMS[1]], samples=1, seed=0)  # one of two
    with pytest.raises(VerifierError, match="2 of 3"):
        step([PROBLEMS[1]], samples=1, seed=0)
    draw.counted_together()(PROBLEMS, samples=1, seed=0)
