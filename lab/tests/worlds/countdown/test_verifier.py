import time
from contextlib import closing
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.records import Outcome, Problem
from dph.tasks.styles import make_style
from dph.tasks.verifiers import make_verifier
from lab.tests.worlds.countdown.brute_force import allowed, derivations, value_of
from lab.worlds.countdown.verifier import (
    LARGEST,
    LONGEST_STEP,
    OPERATORS,
    CountdownStep,
    grade,
    read_step,
    result_of,
    same_steps,
)
from lab.worlds.countdown.world import OTHERS, TRAINED, draw_puzzle


def problem(numbers=(3, 7, 5, 2), target=24):
    return Problem(problem_id="p", prompt="?", answer={"numbers": list(numbers), "target": target})


RIGHT = "3 * 7 = 21 , 5 - 2 = 3 , 21 + 3 = 24"


def test_a_right_derivation_gets_the_whole_reward_and_needs_no_reason():
    verdict = grade(RIGHT, problem())
    assert (verdict.outcome, verdict.reward, verdict.reason) == (Outcome.CORRECT, 1.0, "")
    assert grade(f" {RIGHT}  ", problem()).outcome == Outcome.CORRECT


@pytest.mark.parametrize(
    ("response", "outcome", "reason"),
    [
        ("", Outcome.NO_ANSWER, "nothing is written"),
        ("   ", Outcome.NO_ANSWER, "nothing is written"),
        ("24", Outcome.INVALID, "step 1 must look like 7 - 5 = 2: '24'"),
        ("3 * 7 = 21 ,", Outcome.INVALID, "step 1 must look like 7 - 5 = 2: '3 * 7 = 21 ,'"),
        ("3 * 7 = 21 , 5 + 2", Outcome.INVALID, "step 2 must look like 7 - 5 = 2: '5 + 2'"),
        ("9 + 3 = 12", Outcome.WRONG, "step 1 uses 9, which is not available; left: 3 7 5 2"),
        ("3 + 3 = 6", Outcome.WRONG, "step 1 uses 3, which is not available; left: 7 5 2"),
        (
            "3 * 7 = 21 , 21 + 3 = 24",
            Outcome.WRONG,
            "step 2 uses 3, which is not available; left: 5 2",
        ),
        ("3 * 7 = 22", Outcome.WRONG, "step 1 is false: 3 * 7 is 21, not 22"),
        (
            "7 / 3 = 2",
            Outcome.WRONG,
            "step 1 is false: 7 / 3 is no whole number from 1 to 99, not 2",
        ),
        ("3 * 7 = 21 , 5 - 2 = 3", Outcome.WRONG, "not every number is used; left: 21 3"),
        ("3 * 7 = 21 , 5 + 2 = 7 , 21 + 7 = 28", Outcome.WRONG, "ends at 28, not at 24"),
        (
            f"{RIGHT} , 24 + 1 = 25",
            Outcome.INVALID,
            "50 characters; a derivation from 4 numbers has at most 42",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(response, outcome, reason):
    verdict = grade(response, problem())
    assert (verdict.outcome, verdict.reward, verdict.reason) == (outcome, 0.0, reason)


def test_the_longest_derivation_of_four_numbers_is_still_read():
    answer = "99 - 50 = 49 , 49 + 50 = 99 , 99 - 12 = 87"
    assert len(answer) == 42
    assert grade(answer, problem((99, 50, 50, 12), 87)).outcome == Outcome.CORRECT


def test_reaching_the_target_early_is_not_enough():
    assert grade("3 * 8 = 24", problem((3, 8, 5, 2))).reason.startswith("not every number is used")


@pytest.mark.parametrize("numbers", [(2, 3, 7), (1, 1, 2), (4, 4, 4), (20, 19, 5), (1, 2, 3, 3)])
def test_exactly_the_derivations_that_a_search_finds_are_right(numbers):
    found = derivations(numbers)
    assert len(found) > 5
    for target in sorted(set(found.values()))[:6]:
        for text, end in found.items():
            verdict = grade(text, problem(numbers, target))
            assert (verdict.outcome == Outcome.CORRECT) == (end == target)
            assert verdict.outcome in (Outcome.CORRECT, Outcome.WRONG)


WORDS = ["+", "-", "*", "/", "=", ",", "->", ":", "", *map(str, range(13))]
WORDS += ["99", "100", "007", "\u0663"]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_a_changed_derivation_is_right_only_if_the_search_knows_it(seed, data):
    puzzle, derivation = draw_puzzle(OTHERS if seed % 2 else TRAINED, Random(seed))
    words = derivation.split(" ")
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place] = data.draw(st.sampled_from(WORDS))
    changed = " ".join(words)
    verdict = grade(changed, problem(puzzle.numbers, puzzle.target))
    known = is_right(changed.strip(" "), puzzle.numbers, puzzle.target)
    assert (verdict.outcome == Outcome.CORRECT) == known
    assert bool(verdict.reason) != known


def is_right(text, numbers, target):
    """Whether a search that may only write what the text says ends at the target."""
    return (
        derivations(numbers).get(text) == target
        if len(numbers) == 3
        else follow(text, numbers, target)
    )


def follow(text, numbers, target):
    """Every derivation of what is left after a first step, for four numbers."""
    first, _, rest = text.partition(" , ")
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            others = [n for k, n in enumerate(numbers) if k not in (i, j)]
            for value in range(1, 100) if i != j else ():
                said = [o for o in "+-*/" if first == f"{a} {o} {b} = {value}"]
                if said and {"+": a + b, "-": a - b, "*": a * b}.get(said[0], a / b) == value:
                    return derivations((*others, value)).get(rest) == target
    return False


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_no_text_whatever_breaks_it(response):
    assert grade(response, problem()).outcome in (
        Outcome.NO_ANSWER, Outcome.INVALID, Outcome.WRONG,
    )  # fmt: skip


@pytest.mark.parametrize(
    "response",
    [
        "3 * 7 = 21 , " * 400_000,
        "9" * 5_000_000,
        "(" * 1_000_000,
        "__import__('os').system('exit 1')",
        "3 ** 99999999 = 1",
        "\x00\ud800",
        RIGHT.translate({ord("3"): "\uff13", ord("7"): "\uff17"}),
        "3 * 7 = 21 , 5 - 2 = 3 , 21 + 3 = +24",
        "3 * 7 = 21 , 5 - 2 = 03 , 21 + 3 = 24",
    ],
)
def test_hostile_answers_are_invalid_and_cost_nothing(response):
    started = time.thread_time()
    verdict = grade(response, problem())
    assert verdict.outcome == Outcome.INVALID
    assert len(verdict.reason) < 120
    assert time.thread_time() - started < 0.5


def test_a_problem_without_a_puzzle_is_a_bad_gold_answer_not_a_wrong_one():
    numbers = ([3, 7], "3 7", [3], [], [3, "7"], [3, True], [3, 0], [3, 100])
    answers = [{}, {"target": 10}, {"numbers": [3, 7], "target": None}, {"numbers": [3, 7]}]
    answers += [{"numbers": each, "target": 10} for each in numbers[1:]]
    for answer in answers:
        verdict = grade("3 + 7 = 10", Problem(problem_id="p", prompt="?", answer=answer))
        assert verdict.outcome == Outcome.BAD_GOLD, answer
        assert "two numbers or more and a target" in verdict.reason


def test_it_runs_in_worker_processes_like_any_function():
    asked = [RIGHT, "3 * 7 = 22", "9" * 100_000, "\x00"]
    with closing(make_verifier("lab.worlds.countdown.verifier:grade", workers=2)) as verifier:
        verdicts = verifier.grade([problem()] * len(asked), asked)
    assert verdicts == [grade(response, problem()) for response in asked]


PUZZLE = Problem(problem_id="p", prompt="3 7 5 : 9 ->", answer={"numbers": [3, 7, 5], "target": 9})


def test_a_derivation_is_its_own_class_and_its_order_counts():
    assert same_steps("7 - 3 = 4 , 4 + 5 = 9", PUZZLE) == "7 - 3 = 4 , 4 + 5 = 9"
    assert same_steps(" 7 - 3 = 4 , 4 + 5 = 9 ", PUZZLE) == "7 - 3 = 4 , 4 + 5 = 9"
    assert same_steps("5 + 7 = 12", PUZZLE) != same_steps("7 + 5 = 12", PUZZLE)
    for text in ("", "7 - 3", "think", "7 - 3 = 4 , "):
        assert same_steps(text, PUZZLE) is None


def test_right_and_wrong_answers_have_a_style_and_broken_ones_have_none():
    style = make_style("lab.worlds.countdown.verifier:operator_order", ())
    assert style("3 * 7 = 21 , 5 - 2 = 3 , 21 + 3 = 24") == "*-+"
    assert [style(text) for text in ("3 * 7 = 99", " 8 / 2 = 4 ")] == ["*", "/"]
    for text in ("3 * 7 = 21 ,", "3 * 7 = 21 , 5 - 2", "3 * 7", "", "+ - *"):
        assert style(text) == "other"


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_step_gives_what_exact_fractions_say(operator):
    for first in range(LARGEST + 1):
        for second in range(LARGEST + 1):
            exact = value_of(first, operator, second)
            expected = int(exact) if allowed(exact) else None
            assert result_of(first, operator, second) == expected


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_written_step_is_read_as_it_was_meant(operator):
    for first, second, result in ((1, 2, 3), (99, 98, 97), (10, 9, 90)):
        text = f"{first} {operator} {second} = {result}"
        assert read_step(text) == CountdownStep(first, operator, second, result)
        assert len(text) <= LONGEST_STEP


def test_anything_else_is_no_step():
    others = ["", "7-5=2", "7 - 5", "7 - 5 = 2 ", "7  - 5 = 2", "7\t- 5 = 2", "7 - 5 = 2\n"]
    others += ["-7 + 9 = 2", "+7 - 5 = 2", "07 - 5 = 2", "0 + 5 = 5", "7 - 5 = 2.0", "7 - 5 == 2"]
    others += ["7 % 5 = 2", "7 ** 5 = 2", "100 - 98 = 2", "7 - 5 = 2 = 2", "7 - 5 = 0"]
    others += ["\u0667 - \u0665 = \u0662", "\uff17 - \uff15 = \uff12", "7 \u2212 5 = 2"]
    others += ["\u00b2  - 1 = 1", "a - b = c"]
    assert [text for text in others if read_step(text) is not None] == []
