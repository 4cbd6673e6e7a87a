from dataclasses import replace

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.comparison import changed_problems, compare
from dph.runs.evaluate.intervals import bootstrap_mean, paired_difference


@pytest.fixture
def runs(make_scores):
    base = np.random.default_rng(0).random((40, 8)) < 0.4
    better = base.copy()
    better[:, 0] = True
    greedy = base[:, 0]
    return {
        "base": {"dev": make_scores(base, greedy=greedy), "test": make_scores(base)},
        "better": {"dev": make_scores(better, greedy=~greedy), "test": make_scores(better)},
    }


def test_every_run_has_a_row_for_every_set_and_metric(runs):
    rows = compare(runs, None, [1, 8], seed=0, resamples=200)
    assert [(r.set_name, r.metric, r.run) for r in rows] == [
        (set_name, metric, run)
        for set_name, metrics in {
            "dev": ["greedy", "mean", "pass_at_1", "pass_at_8"],
            "test": ["mean", "pass_at_1", "pass_at_8"],
        }.items()
        for metric in metrics
        for run in ("base", "better")
    ]


def test_differences_are_run_minus_baseline_paired_over_problems(runs):
    rows = compare(runs, "base", [1], seed=0, resamples=200)
    mine, theirs = (runs[run]["test"].rewards.mean(axis=1) for run in ("better", "base"))
    base, better = (r for r in rows if r.set_name == "test" and r.metric == "mean")
    assert base.difference is None
    assert better.difference == paired_difference(mine, theirs, seed=0, resamples=200)
    assert (better.lo, better.hi) == bootstrap_mean(mine, seed=0, resamples=200)
    assert better.value == pytest.approx(mine.mean())
    assert better.difference.lo > 0


def test_greedy_is_left_out_where_a_run_has_none(runs):
    runs["better"]["dev"] = replace(runs["better"]["dev"], greedy=None)
    assert "greedy" not in {r.metric for r in compare(runs, None, [1], seed=0, resamples=10)}


def test_unlike_problems_and_unknown_baselines_are_refused(runs, make_scores):
    with pytest.raises(SettingsError, match="no run 'grpo' to compare with, only base, better"):
        compare(runs, "grpo", [1], seed=0)
    with pytest.raises(DataError, match="no runs"):
        compare({}, None, [1], seed=0)
    runs["other"] = {**runs["base"], "dev": make_scores(runs["base"]["dev"].correct[:39])}
    with pytest.raises(DataError, match=r"'dev' of run 'base'.*'dev' of run 'other'.*'p39'"):
        compare(runs, "base", [1], seed=0)
    del runs["other"], runs["better"]["test"]
    with pytest.raises(DataError, match="run 'better' was not evaluated on set 'test' of 'base'"):
        compare(runs, "base", [1], seed=0)


def solved(counts, samples):
    return np.array([[i < count for i in range(samples)] for count in counts])


def test_the_largest_changes_come_first_of_the_same_problems(make_scores):
    model, baseline = make_scores(solved([2, 4, 0], 4)), make_scores(solved([1, 1, 1], 2))
    found = changed_problems(model, baseline, most=5)
    assert [(one.problem_id, one.change) for one in found] == [("p1", 0.5), ("p2", -0.5)]
    assert (found[0].correct, found[0].samples) == (4, 4)
    assert (found[0].baseline_correct, found[0].baseline_samples) == (1, 2)
    assert len(changed_problems(model, baseline, most=1)) == 1
    model, baseline = make_scores(solved([2, 4], 4)), make_scores(solved([1], 2))
    with pytest.raises(DataError, match="the model and the baseline"):
        changed_problems(model, baseline, most=1)
    with pytest.raises(SettingsError, match="at least 0"):
        changed_problems(model, model, most=-1)
