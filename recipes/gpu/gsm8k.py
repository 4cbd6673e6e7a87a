"""A verifier for GSM8K as it is published: the gold number follows #### in the solution."""

from dataclasses import replace

from dph import Problem, Verdict
from dph.tasks.verifiers.exact import NumberVerifier

_NUMBERS = NumberVerifier()


def grade(response: str, problem: Problem) -> Verdict:
    """Full reward if the last number of the response equals the gold number."""
    gold = str(problem.answer["answer"]).rpartition("####")[2].strip()
    [verdict] = _NUMBERS.grade([replace(problem, answer={"answer": gold})], [response])
    return verdict
