import pytest

from dph.errors import DataError
from dph.records import Outcome, Problem
from dph.tasks.verifiers import ExactVerifier


@pytest.mark.parametrize(
    ("answer", "response", "outcome"),
    [
        ("Paris", " Paris\n", Outcome.CORRECT),
        ("Paris", "paris", Outcome.WRONG),
        ("Paris", "Paris.", Outcome.WRONG),
        (" two  words ", "two  words", Outcome.CORRECT),
        ("two  words", "two words", Outcome.WRONG),
        (7, "7", Outcome.CORRECT),
        ("x", " ", Outcome.NO_ANSWER),
    ],
)
def test_only_the_same_text_is_correct(answer, response, outcome):
    problem = Problem(problem_id="e", prompt="?", answer={"answer": answer})
    with ExactVerifier() as verifier:
        (verdict,) = verifier.grade([problem], [response])
    assert verdict.outcome is outcome
    assert verdict.reward == (outcome is Outcome.CORRECT)


def test_a_problem_without_an_answer_is_an_error_that_names_it():
    with pytest.raises(DataError, match="'answer' in problem 'e'"):
        ExactVerifier().grade([Problem(problem_id="e", prompt="?")], ["x"])


def test_the_reason_says_what_came_and_what_was_wanted_in_a_line():
    problem = Problem(problem_id="e", prompt="?", answer={"answer": "y" * 1000})
    (verdict,) = ExactVerifier().grade([problem], ["a\n" + "x" * 1000])
    assert verdict.reason == f"'a\\n{'x' * 58}' is not '{'y' * 60}'"
