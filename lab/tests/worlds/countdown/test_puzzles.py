"""Puzzles come with an answer, stay in their domain, and are never drawn twice."""

from collections import Counter
from math import sqrt
from random import Random

import pytest

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from lab.worlds.countdown import world
from lab.worlds.countdown.verifier import grade
from lab.worlds.countdown.world import (
    OTHERS,
    TRAINED,
    Puzzle,
    PuzzleDomain,
    draw_puzzle,
    draw_puzzles,
    ends,
    parse_prompt,
    walk,
)


@pytest.mark.parametrize("domain", [TRAINED, OTHERS])
def test_the_walk_that_made_a_puzzle_is_graded_correct(domain):
    rng = Random(0)
    for _ in range(200):
        puzzle, derivation = draw_puzzle(domain, rng)
        assert len(puzzle.numbers) == domain.count
        assert max(puzzle.numbers) <= domain.largest_number
        assert 1 <= puzzle.target <= domain.largest_target
        answer = {"numbers": list(puzzle.numbers), "target": puzzle.target}
        asked = Problem(problem_id="p", prompt=puzzle.prompt, answer=answer)
        assert grade(derivation, asked).outcome == Outcome.CORRECT


def test_a_prompt_is_written_and_read_alike():
    puzzle = Puzzle((3, 7, 5, 2), 24)
    assert puzzle.prompt == "3 7 5 2 : 24 ->"
    assert parse_prompt(puzzle.prompt) == puzzle


def test_puzzles_that_differ_in_the_order_of_numbers_are_one():
    assert Puzzle((3, 7, 2), 8).key == Puzzle((7, 2, 3), 8).key
    assert Puzzle((3, 7, 2), 8).key != Puzzle((3, 7, 2), 9).key
    assert Puzzle((3, 3, 2), 8).key != Puzzle((3, 2, 2), 8).key


def test_a_blind_walk_takes_every_legal_step_equally_often():
    # 2 and 4: both sums and both products, 4 - 2 and 4 / 2; six steps, each with probability 1/6.
    rng, draws = Random(1), 6000
    steps = Counter(walk((2, 4), rng)[0] for _ in range(draws))
    assert set(steps) == {
        "2 + 4 = 6", "4 + 2 = 6", "2 * 4 = 8", "4 * 2 = 8", "4 - 2 = 2", "4 / 2 = 2",
    }  # fmt: skip
    spread = sqrt(draws / 6 * 5 / 6)
    assert all(abs(count - draws / 6) < 5 * spread for count in steps.values())


def test_walks_end_where_the_enumeration_says_and_as_often():
    rng, draws, numbers = Random(2), 4000, (1, 2, 5, 9)
    found = Counter(walk(numbers, rng)[1] for _ in range(draws))
    exact = ends(numbers)
    assert set(found) <= set(exact)
    for end, ways in exact.items():
        spread = sqrt(draws * ways.probability * (1 - ways.probability))
        assert abs(found[end] - draws * ways.probability) < 5 * spread + 1


def test_no_puzzle_is_drawn_twice_whatever_the_order_of_its_numbers():
    taken = {Puzzle((1, 1), 2).key}
    drawn = draw_puzzles(PuzzleDomain(count=2, largest_number=2), 6, Random(0), taken)
    # 1 1: 1 and 2 (taken); 1 2: 1, 2 and 3; 2 2: 1 and 4: seven, one of them taken.
    assert len({puzzle.key for puzzle in drawn} | {Puzzle((1, 1), 2).key}) == 7


def test_more_puzzles_than_there_are_are_refused(monkeypatch):
    monkeypatch.setattr(world, "TRIES", 500)
    with pytest.raises(SettingsError, match=r"after 7 of 8 puzzles .* ask for fewer"):
        draw_puzzles(PuzzleDomain(count=2, largest_number=2), 8, Random(0), set())
