from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom

from dph.errors import DataError
from dph.records import Problem
from dph.results.diagnosis.features import Feature, Features, over_represented, problem_features

HALF = np.tile([0.0, 0.5], 6)


def features(answers, prompts=None, accuracy=None):
    problems = [
        Problem(problem_id=f"p{i}", prompt=prompts[i] if prompts else "x", answer=answer)
        for i, answer in enumerate(answers)
    ]
    accuracy = np.full(len(answers), 0.5) if accuracy is None else accuracy
    found = problem_features(problems, accuracy)
    return {
        f.name: held.tolist() for f, held in zip(found.features, found.held, strict=True)
    }, found


def test_values_bands_of_numbers_and_entries_of_lists_that_several_hold_are_features():
    held, _ = features([{"db": "a"}] * 3 + [{"db": "b"}] * 3)
    assert held == {"db = a": [True] * 3 + [False] * 3, "db = b": [False] * 3 + [True] * 3}
    held, _ = features([{"hops": i} for i in range(16)])
    assert held["hops = 0 to 3"] == [True] * 4 + [False] * 12
    held, _ = features([{"day": 20240101 + i} for i in range(16)])
    assert held["day = 20240101 to 20240104"] == [True] * 4 + [False] * 12
    held, _ = features([{"hops": i % 2} for i in range(16)])
    assert held["hops = 1"] == [False, True] * 8
    held, _ = features(
        [{"terms": ["fee", "day"]}] * 3 + [{"terms": ["fee"]}] * 3 + [{"terms": []}] * 3
    )
    assert held["terms = has day"] == [True] * 3 + [False] * 6
    assert held["terms = has fee"] == [True] * 6 + [False] * 3


def test_what_holds_of_the_same_problems_is_one_feature():
    _, found = features(
        [{"db": "a", "path": "a.sqlite"}] * 3 + [{"db": "b", "path": "b.sqlite"}] * 3
    )
    (one,) = [f for f in found.features if f.name == "db = a"]
    assert one.same_as == ("path = a.sqlite",)


def test_the_length_of_a_prompt_counts_as_text_and_as_messages():
    prompts = ["x" * (i // 4) + f"{i:02d}" for i in range(16)]
    messages = [({"role": "user", "content": prompt},) for prompt in prompts]
    plain, chat = (features([{}] * 16, p)[0] for p in (prompts, messages))
    assert plain["prompt: characters = 2"] == [True] * 4 + [False] * 12
    assert plain == chat


def test_a_column_that_some_problems_lack_is_a_feature_and_objects_are_told_of():
    held, found = features([{"note": "n", "meta": {"a": 1}}] * 4 + [{"meta": {"a": 2}}] * 4)
    assert held["note = n"] == [True] * 4 + [False] * 4
    assert dict(found.unused) == {
        "meta": "its values are objects",
        "prompt": "its values do not distinguish problems",
    }


def test_the_baselines_accuracy_is_a_feature_without_a_file_of_problems():
    found = problem_features(None, HALF)
    assert [f.name for f in found.features] == [
        "base model's accuracy = 0%",
        "base model's accuracy = over 25% to 50%",
    ]
    np.testing.assert_array_equal(found.held[0], HALF == 0)


@pytest.mark.parametrize("value", [None, ""])
def test_an_empty_column_is_no_feature(value):
    held, found = features([{"empty": value}] * 6)
    assert held == {}
    assert "empty" in found.unused


def held_features(*rows):
    held = np.array(rows, dtype=bool)
    names = tuple(Feature(column="f", value=str(i)) for i in range(len(held)))
    return Features(features=names, held=held, unused={})


def first(count, of):
    return np.arange(of) < count


def test_p_values_are_fishers_exact_one_sided_ones():
    rng = np.random.default_rng(0)
    held, lost = rng.random((5, 40)) < 0.4, rng.random(40) < 0.3
    found = over_represented(held_features(*held), lost, np.ones(40, bool), seed=0, draws=100)
    assert [row.p_value for row in found] == sorted(row.p_value for row in found)
    for row in found:
        expected = hypergeom.sf(row.lost_with - 1, 40, row.having, lost.sum())
        assert row.p_value == pytest.approx(expected, rel=1e-9)
        assert row.lost_with + row.lost_without == lost.sum()
        assert row.having + row.lacking == 40


def test_adjusted_p_values_are_the_share_of_choices_of_the_lost_with_one_as_small():
    rng = np.random.default_rng(1)
    held, lost = rng.random((4, 9)) < 0.5, first(3, 9)
    found = over_represented(held_features(*held), lost, np.ones(9, bool), seed=0, draws=20_000)
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
    (row,) = over_represented(held_features(first(4, 40)), lost, could, seed=0, draws=1000)
    assert (row.lost_with, row.having, row.lost_without, row.lacking) == (4, 4, 0, 16)
    assert row.p_value == pytest.approx(1 / 4845)  # 1 / C(20, 4)
    assert row.difference.mean == 1


def test_unrelated_features_are_named_no_more_often_than_the_level():
    rng = np.random.default_rng(3)
    everything = np.ones(60, bool)
    smallest = []
    for seed in range(200):
        held = rng.random((10, 60)) < 0.3
        lost = np.isin(np.arange(60), rng.choice(60, 12, replace=False))
        rows = over_represented(held_features(*held), lost, everything, seed=seed, draws=200)
        smallest.append(rows[0].adjusted)
    assert np.mean(np.array(smallest) <= 0.1) <= 0.1 + 3 * (0.09 / 200) ** 0.5


@pytest.mark.parametrize("lost", [0, 10])
def test_nothing_is_said_where_nothing_or_everything_is_lost(lost):
    made = held_features(first(5, 10)), first(lost, 10), np.ones(10, bool)
    assert over_represented(*made, seed=0) == []


def test_a_lost_problem_that_could_not_be_is_refused():
    with pytest.raises(DataError, match="could be lost"):
        over_represented(held_features(first(5, 10)), first(2, 10), np.zeros(10, bool), seed=0)
