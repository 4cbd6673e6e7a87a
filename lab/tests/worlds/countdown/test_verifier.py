"""The verifier agrees with a search through everything, and says in words what is wrong."""

import time
from contextlib import closing
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.records import Outcome, Problem
from dph.tasks.verifiers import make_verifier
from lab.tests.worlds.countdown.brute_force import derivations
from lab.worlds.countdown.verifier import grade
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
            "3 - 7 = 4",
            Outcome.WRONG,
            "step 1 is false: 3 - 7 is no whole number from 1 to 99, not 4",
        ),
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


WORDS = [
    "+",
    "-",
    "*",
    "/",
    "=",
    ",",
    "->",
    ":",
    *map(str, range(13)),
    "99",
    "100",
    "007",
    "\u0663",
    "",
]


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


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"numbers": [3, 7]},
        {"target": 10},
        {"numbers": "3 7", "target": 10},
        {"numbers": [3], "target": 3},
        {"numbers": [], "target": 3},
        {"numbers": [3, "7"], "target": 10},
        {"numbers": [3, True], "target": 4},
        {"numbers": [3, 0], "target": 3},
        {"numbers": [3, 100], "target": 3},
        {"numbers": [3, 7], "target": None},
    ],
)
def test_a_problem_without_a_puzzle_is_a_bad_gold_answer_not_a_wrong_one(answer):
    verdict = grade("3 + 7 = 10", Problem(problem_id="p", prompt="?", answer=answer))
    assert verdict.outcome == Outcome.BAD_GOLD
    assert "two numbers or more and a target" in verdict.reason


def test_it_runs_in_worker_processes_like_any_function():
    asked = [RIGHT, "3 * 7 = 22", "9" * 100_000, "\x00"]
    with closing(make_verifier("lab.worlds.countdown.verifier:grade", workers=2)) as verifier:
        verdicts = verifier.grade([problem()] * len(asked), asked)
    assert verdicts == [grade(response, problem()) for response in asked]
