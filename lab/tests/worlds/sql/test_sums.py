"""Sums: 49 additions, 28 subtractions, and annotators that are wrong two times in five."""

import pytest

from lab.worlds.sql.sums import SLOPPINESS, Sum, all_sums


def test_there_are_77_sums_and_none_goes_below_zero():
    sums = all_sums()
    assert len(set(sums)) == 77 == 49 + 28
    assert {item.answer for item in sums} == set(range(13))


def test_a_sum_reads_as_a_story():
    assert Sum(4, "got", 3).prompt == "had 4 then got 3 ? ->"
    assert Sum(4, "got", 3).answer == 7
    assert Sum(4, "lost", 3).answer == 1


def test_annotators_are_sloppy_as_often_as_stated_and_stay_within_the_vocabulary():
    for item in all_sums():
        chances = item.chances()
        assert sum(chances.values()) == pytest.approx(1)
        assert next(iter(chances)) == item.answer
        assert chances.keys() <= set(range(19))
    assert Sum(4, "got", 3).chances() == {7: 1 - SLOPPINESS, 5: 0.1, 6: 0.1, 8: 0.1, 9: 0.1}
    # Nothing is below 0: two of the four slips end there.
    assert Sum(0, "lost", 0).chances() == {0: pytest.approx(0.8), 1: 0.1, 2: 0.1}
