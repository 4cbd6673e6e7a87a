"""The exact verifier: the response equals the answer, apart from blanks around it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dph._base.closing import Closing
from dph.errors import DataError
from dph.records import Outcome, Problem, Verdict


class ExactVerifier(Closing):
    """Compares the stripped response with ``answer``; upper and lower case differ."""

    name = "exact"
    version = "1"
    settings: Mapping[str, Any] = MappingProxyType({})

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem has no ``answer``.
        """
        pairs = zip(problems, responses, strict=True)
        return [_grade(problem, response.strip()) for problem, response in pairs]


def _grade(problem: Problem, response: str) -> Verdict:
    if problem.answer.get("answer") is None:
        raise DataError(
            f"the exact verifier needs 'answer' in problem {problem.problem_id!r}, "
            f"its fields are {sorted(problem.answer)}"
        )
    gold = str(problem.answer["answer"]).strip()
    if not response:
        return Verdict(outcome=Outcome.NO_ANSWER, reward=0.0, reason="the response is empty")
    if response == gold:
        return Verdict(outcome=Outcome.CORRECT, reward=1.0)
    return Verdict(
        outcome=Outcome.WRONG, reward=0.0, reason=f"{response[:60]!r} is not {gold[:60]!r}"
    )
