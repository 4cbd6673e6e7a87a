from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

from dph.errors import DataError
from dph.results.diagnosis.problem_features import Feature, Features, over_represented


def features(*rows):
    held = np.array(rows, dtype=bool)
    names = tuple(Feature(column="f", value=str(i)) for i in range(len(held)))
    return Features(features=names, held=held, unused={})


def first(count, of):
    return np.arange(of) < count


def test_p_values_are_fishers_exact_one_sided_ones():
    rng = np.random.default_rng(0)
    held, lost = rng.random((5, 40)) < 0.4, rng.random(40) < 0.3
    found = over_represented(features(*held), lost, np.ones(40, bool), seed=0, draws=100)
    assert [row.p_value for row in found] == sorted(row.p_value for row in found)
    for row in found:
        expected = hypergeom.sf(row.lost_with - 1, 40, row.having, lost.sum())
        assert row.p_value == pytest.approx(expected, rel=1e-9)
        assert row.lost_with + row.lost_without == lost.sum()
        assert row.having + row.lacking == 40


def test_adjusted_p_values_are_the_share_of_choices_of_the_lost_with_one_as_small():
    rng = np.random.default_rng(1)
    held, lost = rng.random((4, 9)) < 0.5, first(3, 9)
    found = over_represented(features(*held), lost, np.ones(9, bool), seed=0, draws=20_000)
    choices = [np.isin(np.arange(9), chosen) for chosen in combinations(range(9), 3)]
    smallest = np.array(
        [
            min(
                hypergeom.sf((row & chosen).sum() - 1, 9, row.sum(), 3)
                for row in held
                if 0 < row.sum() < 9
            )
            for chosen in choices
        ]
    )
    for row in found:
        exact = (smallest <= row.p_value + 1e-12).mean()
        assert row.adjusted == pytest.approx(exact, abs=4 * (0.25 / 20_000) ** 0.5)


def test_only_problems_that_could_be_lost_count():
    lost, could = first(4, 40), first(20, 40)
    (row,) = over_represented(features(first(4, 40)), lost, could, seed=0, draws=1000)
    assert (row.lost_with, row.having, row.lost_without, row.lacking) == (4, 4, 0, 16)
    assert row.p_value == pytest.approx(1 / 4845)  # 1 / C(20, 4)
    assert row.difference.mean == 1


def test_the_same_seed_gives_the_same_result_and_no_p_value_is_zero():
    rng = np.random.default_rng(2)
    made = features(*(rng.random((6, 50)) < 0.3)), first(10, 50), np.ones(50, bool)
    one, other = (over_represented(*made, seed=7, draws=700) for _ in range(2))
    assert one == other
    assert min(row.adjusted for row in one) >= 1 / 701


def test_unrelated_features_are_named_no_more_often_than_the_level():
    rng = np.random.default_rng(3)
    everything = np.ones(60, bool)
    smallest = []
    for seed in range(200):
        held = rng.random((10, 60)) < 0.3
        lost = np.isin(np.arange(60), rng.choice(60, 12, replace=False))
        rows = over_represented(features(*held), lost, everything, seed=seed, draws=200)
        smallest.append(rows[0].adjusted)
    assert np.mean(np.array(smallest) <= 0.1) <= 0.1 + 3 * (0.09 / 200) ** 0.5


@pytest.mark.parametrize("lost", [0, 10])
def test_nothing_is_said_where_nothing_or_everything_is_lost(lost):
    made = features(first(5, 10)), first(lost, 10), np.ones(10, bool)
    assert over_represented(*made, seed=0) == []


def test_a_lost_problem_that_could_not_be_is_refused():
    with pytest.raises(DataError, match="could be lost"):
        over_represented(features(first(5, 10)), first(2, 10), np.zeros(10, bool), seed=0)
