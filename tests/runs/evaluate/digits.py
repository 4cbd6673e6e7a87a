"""A fake model that says digits and a verifier of digits, both deterministic."""

import hashlib

from dph.records import Completion, Outcome, Verdict


class CountingSampler:
    """Draws a digit from a hash of (seed, problem, index); can break after so many calls."""

    def __init__(self, fail_at_call=None):
        self.calls = 0
        self.fail_at_call = fail_at_call

    def sample(self, requests, parameters, *, seed, on_progress=None, on_completion=None):
        self.calls += 1
        if self.calls == self.fail_at_call:
            raise RuntimeError("killed")
        groups = [
            [
                self._draw(request.problem_id, request.first_index + i, parameters, seed)
                for i in range(request.samples)
            ]
            for request in requests
        ]
        if on_progress:
            on_progress(sum(map(len, groups)))
        if on_completion:
            for position, group in enumerate(groups):
                for completion in group:
                    on_completion(position, completion)
        return groups

    def _draw(self, problem_id, index, parameters, seed):
        key = f"{seed}/{problem_id}/{'greedy' if parameters.greedy else index}"
        number = hashlib.sha256(key.encode()).digest()[0]
        return Completion(
            problem_id=problem_id,
            sample_index=index,
            token_ids=(1,) * (1 + number % 3),
            logprobs=(-0.5,) * (1 + number % 3),
            finished=number % 17 > 0,
            text=str(number % 10),
        )


class DigitVerifier:
    """Right below the problem's limit; 9 gets half a point."""

    name = "digit"
    version = "1"

    def grade(self, problems, responses):
        return [self._grade(p, r) for p, r in zip(problems, responses, strict=True)]

    def _grade(self, problem, response):
        if problem.answer.get("broken"):
            return Verdict(outcome=Outcome.BAD_GOLD, reward=0.0, reason="no gold")
        if int(response) < problem.answer["limit"]:
            return Verdict(outcome=Outcome.CORRECT, reward=1.0)
        reward = 0.5 if response == "9" else 0.0
        return Verdict(outcome=Outcome.WRONG, reward=reward, reason="too large")

    def close(self):
        pass


def parity(text):
    return "odd" if int(text) % 2 else "even"
