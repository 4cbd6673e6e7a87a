from collections import Counter
from math import sqrt
from random import Random

import pytest

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from lab.tests.worlds.countdown.brute_force import derivations
from lab.worlds.countdown import world
from lab.worlds.countdown.verifier import grade
from lab.worlds.countdown.world import (
    OTHERS,
    TRAINED,
    Puzzle,
    PuzzleDomain,
    Ways,
    draw_puzzle,
    draw_puzzles,
    ends,
    solutions,
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


def test_no_puzzle_is_drawn_twice_whatever_the_order_of_its_numbers():
    taken = {Puzzle((1, 1), 2).key}
    drawn = draw_puzzles(PuzzleDomain(count=2, largest_number=2), 6, Random(0), taken)
    # 1 1: 1 and 2 (taken); 1 2: 1, 2 and 3; 2 2: 1 and 4: seven, one of them taken.
    assert len({puzzle.key for puzzle in drawn} | {Puzzle((1, 1), 2).key}) == 7


def test_more_puzzles_than_there_are_are_refused(monkeypatch):
    monkeypatch.setattr(world, "TRIES", 500)
    with pytest.raises(SettingsError, match=r"after 7 of 8 puzzles .* ask for fewer"):
        draw_puzzles(PuzzleDomain(count=2, largest_number=2), 8, Random(0), set())


def test_equal_numbers_are_one_text_but_two_walks():
    # 3 and 3 in either order: 3 + 3, 3 * 3 and 3 / 3, each twice as a walk and once as a text.
    assert dict(ends((3, 3))) == {
        6: Ways(pytest.approx(1 / 3), 1),
        9: Ways(pytest.approx(1 / 3), 1),
        1: Ways(pytest.approx(1 / 3), 1),
    }


def test_three_numbers_by_hand():
    # Of 1, 1 and 1 the first step gives 2 (sum), 1 (product) or 1 (quotient), 2 walks each of 6.
    # 2 and 1: 2 + 1, 1 + 2, 2 * 1, 1 * 2, 2 / 1 and 2 - 1, of which two give 3: 1/3 * 2/6.
    assert ends((1, 1, 1))[3] == Ways(pytest.approx(1 / 9), 2)


@pytest.mark.parametrize("numbers", [(2, 3, 7), (1, 1, 2), (4, 4, 4), (20, 19, 5), (1, 2, 3, 3)])
def test_the_number_of_derivations_is_that_of_a_search(numbers):
    searched = Counter(derivations(numbers).values())
    found = {end: ways.derivations for end, ways in ends(tuple(sorted(numbers))).items()}
    assert found == dict(searched)


def test_the_order_of_numbers_does_not_matter_and_what_cannot_be_reached_has_no_way():
    assert solutions(Puzzle((7, 3, 2), 8)) == solutions(Puzzle((2, 3, 7), 8))
    assert solutions(Puzzle((1, 1), 50)) == Ways(0.0, 0)
