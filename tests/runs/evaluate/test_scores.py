import json

import numpy as np
import pytest

from dph.errors import DataError
from dph.runs.evaluate.intervals import bootstrap_mean
from dph.runs.evaluate.metrics import pass_at_k
from dph.runs.evaluate.scores import (
    evaluation_document,
    metric_values,
    require_same_problems,
    set_summary,
)

ROWS = [[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]]


def test_a_summary_is_the_arithmetic_of_its_samples_and_part_of_a_point_counts_in_the_mean(
    make_scores,
):
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
    scores = make_scores([[0, 0], [1, 0]], rewards=np.array([[0.5, 0.5], [1.0, 0.0]]))
    summary = set_summary(scores, ks=[1], seed=0)
    assert (summary["mean"], summary["pass_at_k"]["1"]) == (0.5, 0.25)


def test_what_is_not_known_is_none(make_scores):
    summary = set_summary(make_scores(ROWS), ks=[1], seed=0)
    kept = {"keep", "explore", "keep_null", "explore_null"}
    unknown = {"greedy", "cut_off", "effective_styles", *kept}
    assert {key for key, value in summary.items() if value is None} == unknown
    assert summary["ci95"]["greedy"] is None
    assert summary["styles"] == {}


def test_metric_values_come_problem_by_problem(make_scores):
    values = metric_values(make_scores(ROWS, greedy=[1, 0, 1]), [1, 1, 4])
    assert list(values) == ["greedy", "mean", "pass_at_1", "pass_at_4"]
    assert values["pass_at_4"].tolist() == [1.0, 0.0, 1.0]


def test_other_problems_are_refused_with_an_example(make_scores):
    more, fewer = make_scores(ROWS), make_scores(ROWS[:2])
    message = "problem by problem: 1 problem.s. of more are not in fewer, for example 'p2'"
    with pytest.raises(DataError, match=message):
        require_same_problems(more, fewer, name_a="more", name_b="fewer")
    with pytest.raises(DataError, match=message):
        require_same_problems(fewer, more, name_a="fewer", name_b="more")
    with pytest.raises(DataError, match="the base model are not in the model"):
        set_summary(fewer, ks=[1], seed=0, base=more)
    swapped = make_scores(ROWS, problem_ids=("p0", "p2", "p1"))
    with pytest.raises(DataError, match="at position 1, one has 'p1', the other 'p2'"):
        require_same_problems(more, swapped, name_a="a", name_b="b")


TOP = {"schema", "model", "samples", "sets"}
SET = {
    *("problems", "greedy", "mean", "pass_at_k", "ci95", "styles", "effective_styles"),
    *("cut_off", "keep", "explore", "keep_null", "explore_null"),
}


@pytest.fixture
def scores(make_scores):
    rng = np.random.default_rng(0)
    rates = rng.random((30, 1)) ** 3
    return make_scores(
        rng.random((30, 16)) < rates,
        greedy=rates[:, 0] > 0.5,
        shares={"plain": 0.3, "cte": 0.7},
        cut_off=0.25,
    )


def test_the_document_has_exactly_the_keys_of_the_contract(scores, make_scores):
    sets = {"dev": scores}
    document = evaluation_document("base", 16, sets, sets, [1, 8], seed=0)
    json.dumps(document, allow_nan=False)
    assert document == evaluation_document("base", 16, sets, sets, [1, 8], seed=0)
    assert set(document) == TOP
    assert (document["schema"], document["model"], document["samples"]) == (2, "base", 16)
    summary = document["sets"]["dev"]
    assert set(summary) == SET
    assert set(summary["pass_at_k"]) == {"1", "8"}
    assert set(summary["ci95"]) == {"greedy", "mean", "pass_at_1", "pass_at_8"}
    assert summary["styles"] == {"plain": 0.3, "cte": 0.7}
    numbers = [summary[key] for key in SET - {"problems", "pass_at_k", "ci95", "styles"}]
    assert all(isinstance(number, float) for number in numbers)
    assert all(0 <= lo <= hi <= 1 for lo, hi in summary["ci95"].values())
    bare = evaluation_document("m", 16, {"dev": make_scores(scores.correct)}, None, [1], seed=0)
    assert set(bare["sets"]["dev"]) == SET  # when nothing is known, too


def test_a_base_without_the_set_and_another_number_of_samples_are_refused(scores):
    with pytest.raises(DataError, match="not evaluated on set 'dev'"):
        evaluation_document("m", 16, {"dev": scores}, {}, [1], seed=0)
    with pytest.raises(DataError, match="16 samples per problem, not 8"):
        evaluation_document("m", 8, {"dev": scores}, None, [1], seed=0)
