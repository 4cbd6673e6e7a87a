import json

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.scores import evaluation_document

TOP = {"schema", "model", "samples", "sets"}
SET = {
    "problems",
    "greedy",
    "mean",
    "pass_at_k",
    "ci95",
    "keep",
    "explore",
    "keep_null",
    "explore_null",
    "styles",
    "effective_styles",
    "cut_off",
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


def test_the_document_has_exactly_the_keys_of_the_contract(scores):
    document = evaluation_document("base", 16, {"dev": scores}, {"dev": scores}, [1, 8], seed=0)
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


def test_the_keys_are_the_same_when_nothing_is_known(scores, make_scores):
    bare = make_scores(scores.correct)
    document = evaluation_document("base", 16, {"dev": bare}, None, [1], seed=0)
    assert set(document["sets"]["dev"]) == SET


def test_the_document_is_json_and_the_same_for_the_same_seed(scores):
    first, second = (
        json.dumps(
            evaluation_document("m", 16, {"dev": scores}, None, [1], seed=3), allow_nan=False
        )
        for _ in range(2)
    )
    assert first == second


def test_a_base_without_the_set_is_refused(scores):
    with pytest.raises(DataError, match="not evaluated on set 'dev'"):
        evaluation_document("m", 16, {"dev": scores}, {}, [1], seed=0)


def test_scores_with_another_number_of_samples_are_refused(scores):
    with pytest.raises(DataError, match="16 samples a problem, not 8"):
        evaluation_document("m", 8, {"dev": scores}, None, [1], seed=0)


def test_a_k_beyond_the_samples_is_refused(scores):
    with pytest.raises(SettingsError, match="k=32, samples=16"):
        evaluation_document("m", 16, {"dev": scores}, None, [32], seed=0)
