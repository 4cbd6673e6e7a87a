import numpy as np
import pytest

from dph.results.diagnosis.changes import QUESTIONS, list_level, question_level


def test_the_questions_share_the_whole():
    assert QUESTIONS * question_level(0.05) == pytest.approx(0.05)


@pytest.mark.parametrize("seed", range(10))
def test_the_level_of_the_lists_is_that_of_the_sets_that_benjamini_and_hochberg_select(seed):
    smallest = np.random.default_rng(seed).random(8) ** 4
    level = list_level(smallest, 0.1)
    selected = (smallest <= level).sum()
    assert level == pytest.approx(0.1 * max(1, selected) / 8)
    larger = [0.1 * rank / 8 for rank in range(int(selected) + 1, 9)]
    assert all((smallest <= bound).sum() < round(bound * 80) for bound in larger)


def test_of_sets_where_nothing_happened_one_is_selected_no_more_often_than_the_level():
    rng = np.random.default_rng(0)
    named = [(p := rng.random(5)).min() <= list_level(p, 0.1) for _ in range(4000)]
    assert np.mean(named) == pytest.approx(0.1, abs=3 * (0.1 * 0.9 / 4000) ** 0.5)
