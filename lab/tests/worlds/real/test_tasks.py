import re
from random import Random

import pytest

from dph.records import Problem
from dph.tasks.verifiers import make_verifier
from lab.worlds.real.tasks import TASKS, GymKind, answer_text

DRAWN = {
    f"{name} {kind}": getattr(task, kind)
    for name, task in TASKS.items()
    for kind in ("trained", "across", "neither")
    if not isinstance(getattr(task, kind), GymKind)
}


def questions(draw, count=50):
    rng = Random("questions")
    return [draw(rng) for _ in range(count)]


@pytest.mark.parametrize("name", DRAWN)
def test_a_worked_answer_ends_with_its_result_and_the_verifier_says_that_it_is_right(name):
    with make_verifier("number") as verifier:
        for question in questions(DRAWN[name]):
            problem = Problem(
                problem_id="p", prompt=question.prompt, answer={"answer": question.answer}
            )
            assert question.shown.endswith(question.answer)
            assert "\n" not in question.prompt + question.shown
            (verdict,) = verifier.grade([problem], [f" {question.shown}"])
            assert verdict.reward == 1


@pytest.mark.parametrize("name", ["sums", "running-sum"])
def test_sums_are_the_sums_of_their_terms(name):
    for kind in ("trained", "across"):
        for question in questions(getattr(TASKS[name], kind)):
            assert int(question.answer) == sum(map(int, question.prompt.split(" + ")))


def test_every_step_of_a_running_sum_is_true():
    for question in questions(TASKS["running-sum"].across):
        steps = re.findall(r"(\d+) \+ (\d+) = (\d+)", question.shown)
        assert len(steps) == 4
        assert all(int(a) + int(b) == int(c) for a, b, c in steps)


def test_extremes_lengths_and_counts_are_what_python_says_of_the_question():
    for question in questions(TASKS["largest"].trained):
        assert int(question.answer) == max(map(int, re.findall(r"\d+", question.prompt)))
    for question in questions(TASKS["letters"].across):
        assert int(question.answer) == len(question.prompt.split()[-1]) in range(8, 11)
    for question in questions(TASKS["letters"].neither):
        assert int(question.answer) == sum(c in "aeiou" for c in question.prompt.split()[-1])
    for question in questions(TASKS["tally"].trained):
        _, sought, _, *row = question.prompt.split()
        assert int(question.answer) == row.count(sought)
        assert question.shown.count(",") == len(row) - 1
    for question in questions(TASKS["tally"].neither):
        _, _, sought, _, *row = question.prompt.split()
        assert row[int(question.answer) - 1] == sought


def test_differences_are_never_below_0():
    for question in questions(TASKS["sums"].neither):
        a, b = map(int, question.prompt.split(" - "))
        assert int(question.answer) == a - b >= 0


def test_answers_to_reasoning_gym_agree_by_their_text():
    problem = Problem(problem_id="p", prompt="?")
    assert answer_text(" 12 ", problem) == answer_text("Answer: 12", problem) == "12"
    assert answer_text("  ", problem) is None
