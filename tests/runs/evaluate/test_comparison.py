import json
from dataclasses import replace

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.comparison import (
    BASE,
    MODEL,
    changed_problems,
    compare,
    read_rewards,
    summarize_rewards,
    uneven_scores,
)
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


@pytest.fixture
def write(tmp_path):
    def to_file(*rows):
        path = tmp_path / "graded.jsonl"
        path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
        return path

    return to_file


def row(problem_id="a", reward=1.0, **more):
    return {"problem_id": problem_id, "reward": reward, **more}


def samples_of(scores):
    """Correct or not, of each problem's own samples."""
    counts = scores.counts if scores.counts is not None else [scores.samples] * len(scores.correct)
    rows = zip(scores.problem_ids, scores.correct, counts, strict=True)
    return {name: row[:count].tolist() for name, row, count in rows}


def test_rewards_are_collected_by_problem_and_samples_by_their_index(write):
    scores = read_rewards(write(row("b", 0), row("a", 1), row("b", 0.5), row(7, 1)))
    assert samples_of(scores) == {"b": [False, False], "a": [True], "7": [True]}
    assert scores.rewards[0].tolist() == [0.0, 0.5]
    path = write(
        row(reward=1, sample_index=1), row(reward=1, sample_index=-1), row(reward=0, sample_index=0)
    )
    assert read_rewards(path).rewards.tolist() == [[0.0, 1.0]]


def test_an_outcome_decides_over_the_reward_and_what_was_not_graded_is_not_wrong(write):
    path = write(row(reward=0.8, outcome="CORRECT"), row(reward=1.0, outcome="WRONG"))
    assert samples_of(read_rewards(path)) == {"a": [True, False]}
    crashed = row("a", 0, outcome="CRASHED")
    scores = read_rewards(write(row("a"), crashed, row("b", 0, outcome="CRASHED"), row("c", 0)))
    assert samples_of(scores) == {"a": [True], "c": [False]}
    assert scores.bad_gold == ("b",)
    scores = read_rewards(write(row("a", 0, outcome="BAD_GOLD"), row("b"), row("a", 1)))
    assert (scores.problem_ids, scores.bad_gold) == (("b",), ("a",))
    with pytest.raises(DataError, match="no graded samples that count"):
        read_rewards(write(row(outcome="BAD_GOLD")))


def test_one_of_several_sets_must_be_chosen(write):
    path = write(row(set="dev"), row("b", set="test"))
    assert read_rewards(path, set_name="test").problem_ids == ("b",)
    with pytest.raises(DataError, match="several sets, choose one: dev, test"):
        read_rewards(path)
    with pytest.raises(DataError, match="no rows of the set 'x', only of dev, test"):
        read_rewards(path, set_name="x")


def rewards(bad_gold=(), **problems):
    """``a="110"``: three samples of problem a, the first two correct."""
    samples = {name: [(s == "1", float(s)) for s in of] for name, of in problems.items()}
    return uneven_scores(samples, bad_gold=bad_gold)


def values(summary, run=MODEL):
    return {row.metric: row.value for row in summary.rows if row.run == run}


def test_each_problem_counts_by_its_own_number_of_samples():
    summary = summarize_rewards(rewards(a="1000", b="10"))
    # Pass@2: 1 - C(3, 2) / C(4, 2) = 1/2 for a, 1 for b.
    assert values(summary) == {"mean": 0.375, "pass_at_1": 0.375, "pass_at_2": 0.75}
    assert (summary.problems, summary.fewest_samples, summary.most_samples) == (2, 2, 4)
    assert (summary.retention, summary.band, summary.peer) == (None, None, None)


def test_the_difference_is_paired_and_has_the_sign_of_the_first_file():
    summary = summarize_rewards(rewards(a="11", b="10"), rewards(b="00", a="10"), ks=[2])
    mean, base, pass_at_2, _ = summary.rows
    assert (mean.value, base.value, mean.difference.mean) == (0.75, 0.25, 0.5)
    assert (base.run, base.difference) == (BASE, None)
    # Both problems gain exactly 1/2: with q = 0.025^(1/2) = 0.1581, q / 2 - (1 - q) = -0.7628.
    assert (mean.difference.lo, mean.difference.hi) == pytest.approx((-0.7628, 0.9209), abs=5e-5)
    assert pass_at_2.difference.mean == 0.5


def test_keep_and_explore_split_by_the_other_file_unless_samples_are_uneven():
    summary = summarize_rewards(
        rewards(a="1111", b="1111", c="0000"), rewards(a="1010", b="0000", c="0000"), retention_k=2
    )
    assert (summary.retention.keep, summary.retention.explore) == (1.0, 0.5)
    summary = summarize_rewards(rewards(a="11", b="1"), rewards(a="11", b="1"), retention_k=1)
    assert summary.retention.keep is None


def test_a_problem_that_one_file_could_not_grade_is_left_out_of_both():
    summary = summarize_rewards(rewards(a="1", b="1"), rewards(bad_gold=("b",), a="0"))
    assert (summary.problems, summary.left_out) == (1, ("b",))
    assert values(summary)["mean"] == 1.0


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (rewards(a="1", b="1"), rewards(a="1"), "1 of the first are not in the second.*'b'"),
        (rewards(a="1"), rewards(a="1", c="1"), "1 of the second are not in the first.*'c'"),
        (rewards(bad_gold=("b",), a="1"), rewards(bad_gold=("a",), b="1"), "no problem could be"),
    ],
)
def test_files_of_other_problems_cannot_be_compared(one, other, message):
    with pytest.raises(DataError, match=message):
        summarize_rewards(one, other)


def test_a_k_above_the_samples_names_the_problem():
    with pytest.raises(SettingsError, match="k=2, but problem 'b' has 1 samples"):
        summarize_rewards(rewards(a="11", b="1"), ks=[2])
