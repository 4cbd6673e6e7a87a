"""Enumeration against a search that shares nothing with it, and against arithmetic by hand."""

from collections import Counter

import pytest

from lab.tests.worlds.countdown.brute_force import derivations
from lab.worlds.countdown.world import Puzzle, Ways, ends, solutions


def test_two_numbers_by_hand():
    # 2 and 4: 2 + 4, 4 + 2, 2 * 4, 4 * 2, 4 - 2 and 4 / 2 are legal, each with probability 1/6.
    assert dict(ends((2, 4))) == {
        6: Ways(pytest.approx(1 / 3), 2),
        8: Ways(pytest.approx(1 / 3), 2),
        2: Ways(pytest.approx(1 / 3), 2),
    }


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


@pytest.mark.parametrize("numbers", [(1, 9, 9), (2, 3, 5, 7), (1, 1, 1, 1)])
def test_a_walk_ends_somewhere(numbers):
    assert sum(ways.probability for ways in ends(numbers).values()) == pytest.approx(1)


def test_the_order_of_numbers_does_not_matter_and_what_cannot_be_reached_has_no_way():
    assert solutions(Puzzle((7, 3, 2), 8)) == solutions(Puzzle((2, 3, 7), 8))
    assert solutions(Puzzle((1, 1), 50)) == Ways(0.0, 0)
