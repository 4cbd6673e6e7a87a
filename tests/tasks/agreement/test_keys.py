"""Answers compared by a function of one's own."""

import pytest

from dph.errors import SettingsError, VerifierError
from dph.records import Problem
from dph.tasks.agreement import KeyComparer, plain_key

PROBLEM = Problem(problem_id="p", prompt="say a")


def test_answers_with_equal_keys_agree():
    with KeyComparer("own_agreement:first_letter") as comparer:
        answers = [["apple", "bear", "ant", "", None], ["b"]]
        assert comparer.classes([PROBLEM, PROBLEM], answers) == [(0, 1, 0, None, None), (0,)]
        assert comparer.identity["name"] == "own_agreement:first_letter"
        assert len(comparer.identity["version"]) == 12


@pytest.mark.parametrize(
    ("function", "message"),
    [("broken", "failed on 2 of 2 answers"), ("no_key", "a key is text, a finite number")],
)
def test_a_function_that_cannot_do_it_is_an_error(function, message):
    with (
        KeyComparer(f"own_agreement:{function}") as comparer,
        pytest.raises(VerifierError, match=message),
    ):
        comparer.classes([PROBLEM], [["a", "b"]])


def test_a_function_that_is_not_there_is_refused():
    with pytest.raises(SettingsError, match="cannot be used"):
        KeyComparer("own_agreement:missing")


def test_keys_are_texts_numbers_and_lists_of_them():
    assert plain_key(("a", 1, [0.5, True])) == ["a", 1, [0.5, True]]
    for wrong in (object(), float("nan"), {"a": 1}, [None]):
        with pytest.raises(TypeError):
            plain_key(wrong)
