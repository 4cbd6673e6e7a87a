"""Sums: 49 additions, 28 subtractions, and annotators that are wrong two times in five."""

from random import Random

import pytest

from dph.lab.worlds.sql.lessons import FORMS, SLOPPINESS, Sum, all_sums


def test_there_are_77_sums_and_none_goes_below_zero():
    sums = all_sums()
    assert len(set(sums)) == 77 == 49 + 28
    assert {item.answer for item in sums} == set(range(13))


def test_a_sum_reads_as_a_story():
    assert Sum(4, "got", 3).prompt == "had 4 then got 3 ? ->"
    assert Sum(4, "got", 3).answer == 7
    assert Sum(4, "lost", 3).answer == 1


def test_annotators_are_sloppy_as_often_as_stated():
    rng, item, draws = Random(0), Sum(4, "got", 3), 4000
    answers = [item.annotate(rng) for _ in range(draws)]
    assert {answer.rsplit(" ", 1)[0] for answer in answers} == set(FORMS)
    wrong = sum(not answer.endswith(" 7") for answer in answers) / draws
    # Four standard deviations of a mean of 4000 coin flips are at most 0.032.
    assert wrong == pytest.approx(SLOPPINESS, abs=0.032)


def test_a_sloppy_answer_stays_a_number_of_the_vocabulary():
    rng = Random(0)
    numbers = {int(item.annotate(rng).rsplit(" ", 1)[1]) for item in all_sums() for _ in range(9)}
    assert numbers <= set(range(19))
