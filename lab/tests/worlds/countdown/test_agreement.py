"""Answers are the same when they take the same steps, however they are spaced."""

import pytest

from dph import Problem
from lab.worlds.countdown.verifier import same_steps

PUZZLE = Problem(problem_id="p", prompt="3 7 5 : 9 ->", answer={"numbers": [3, 7, 5], "target": 9})


def test_a_derivation_is_its_own_class():
    assert same_steps("7 - 3 = 4 , 4 + 5 = 9", PUZZLE) == "7 - 3 = 4 , 4 + 5 = 9"
    assert same_steps(" 7 - 3 = 4 , 4 + 5 = 9 ", PUZZLE) == "7 - 3 = 4 , 4 + 5 = 9"


def test_another_order_is_another_answer():
    assert same_steps("5 + 7 = 12 , 12 - 3 = 9", PUZZLE) != same_steps(
        "7 + 5 = 12 , 12 - 3 = 9", PUZZLE
    )


@pytest.mark.parametrize("text", ["", "7 - 3", "think", "7 - 3 = 4 , "])
def test_what_is_no_derivation_belongs_to_no_class(text):
    assert same_steps(text, PUZZLE) is None
