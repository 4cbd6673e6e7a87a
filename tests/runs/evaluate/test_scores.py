import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.intervals import bootstrap_mean
from dph.runs.evaluate.metrics import pass_at_k
from dph.runs.evaluate.scores import metric_values, require_same_problems, set_summary

ROWS = [[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]


def test_a_summary_is_the_arithmetic_of_its_samples(make_scores):
    scores = make_scores(ROWS, greedy=[1, 0, 1], shares={"cte": 0.5, "plain": 0.5})
    summary = set_summary(scores, ks=[2, 1], seed=0)
    assert summary["problems"] == 3
    assert summary["greedy"] == pytest.approx(2 / 3)
    assert summary["mean"] == pytest.approx(0.5)
    assert list(summary["pass_at_k"]) == ["1", "2"]
    assert summary["pass_at_k"]["1"] == pytest.approx(0.5)
    assert summary["pass_at_k"]["2"] == pytest.approx((pass_at_k(4, 2, 2) + 0 + 1) / 3)
    assert summary["effective_styles"] == pytest.approx(2.0)
    counts = np.array([pass_at_k(4, c, 2) for c in (2, 0, 4)])
    assert summary["ci95"]["pass_at_2"] == list(bootstrap_mean(counts, seed=0))


def test_what_is_not_known_is_none(make_scores):
    summary = set_summary(make_scores(ROWS), ks=[1], seed=0)
    kept = {"keep", "explore", "keep_null", "explore_null"}
    unknown = {"greedy", "cut_off", "effective_styles", *kept}
    assert {key for key, value in summary.items() if value is None} == unknown
    assert summary["ci95"]["greedy"] is None
    assert summary["styles"] == {}


def test_the_mean_counts_part_of_the_points_and_pass_at_k_does_not(make_scores):
    scores = make_scores([[0, 0], [1, 0]], rewards=np.array([[0.5, 0.5], [1.0, 0.0]]))
    summary = set_summary(scores, ks=[1], seed=0)
    assert (summary["mean"], summary["pass_at_k"]["1"]) == (0.5, 0.25)


def test_a_base_model_against_itself_keeps_what_its_null_keeps(make_scores):
    scores = make_scores(np.random.default_rng(0).random((40, 16)) < 0.3)
    summary = set_summary(scores, ks=[1], seed=0, base=scores)
    assert 0 < summary["keep"] == summary["keep_null"] < 1


def test_metric_values_come_problem_by_problem(make_scores):
    values = metric_values(make_scores(ROWS, greedy=[1, 0, 1]), [1, 1, 4])
    assert list(values) == ["greedy", "mean", "pass_at_1", "pass_at_4"]
    assert values["pass_at_4"].tolist() == [1.0, 0.0, 1.0]


def test_a_k_beyond_the_samples_is_refused(make_scores):
    with pytest.raises(SettingsError, match="k=5, samples=4"):
        set_summary(make_scores(ROWS), ks=[5], seed=0)


def test_other_problems_are_refused_with_an_example(make_scores):
    more, fewer = make_scores(ROWS), make_scores(ROWS[:2])
    message = "problem by problem: 1 of more are not in fewer, for example 'p2'"
    with pytest.raises(DataError, match=message):
        require_same_problems(more, fewer, name_a="more", name_b="fewer")
    with pytest.raises(DataError, match=message):
        require_same_problems(fewer, more, name_a="fewer", name_b="more")


def test_the_same_problems_in_another_order_are_refused(make_scores):
    swapped = make_scores(ROWS, problem_ids=("p0", "p2", "p1"))
    with pytest.raises(DataError, match="at 1 one has 'p1', the other 'p2'"):
        require_same_problems(make_scores(ROWS), swapped, name_a="a", name_b="b")


def test_a_base_with_other_problems_is_refused(make_scores):
    with pytest.raises(DataError, match="the base model are not in the model"):
        set_summary(make_scores(ROWS[:2]), ks=[1], seed=0, base=make_scores(ROWS))
