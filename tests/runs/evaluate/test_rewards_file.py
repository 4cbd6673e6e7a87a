import json

import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.rewards_file import (
    BASE,
    MODEL,
    ProblemRewards,
    Rewards,
    read_rewards,
    summarize_rewards,
)


@pytest.fixture
def write(tmp_path):
    def to_file(*rows):
        path = tmp_path / "graded.jsonl"
        path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
        return path

    return to_file


def row(problem_id="a", reward=1.0, **more):
    return {"problem_id": problem_id, "reward": reward, **more}


def test_rewards_are_collected_by_problem_and_samples_by_their_index(write):
    rewards = read_rewards(write(row("b", 0), row("a", 1), row("b", 0.5), row(7, 1)))
    assert list(rewards.problems) == ["b", "a", "7"]
    assert rewards.problems["b"].rewards.tolist() == [0.0, 0.5]
    assert rewards.problems["b"].correct.tolist() == [False, False]
    assert rewards.samples.tolist() == [2, 1, 1]
    assert rewards.correct_matrix is None
    path = write(
        row(reward=1, sample_index=1), row(reward=1, sample_index=-1), row(reward=0, sample_index=0)
    )
    assert read_rewards(path).problems["a"].rewards.tolist() == [0.0, 1.0]


def test_an_outcome_decides_over_the_reward_and_what_was_not_graded_is_not_wrong(write):
    path = write(row(reward=0.8, outcome="CORRECT"), row(reward=1.0, outcome="WRONG"))
    assert read_rewards(path).problems["a"].correct.tolist() == [True, False]
    crashed = row("a", 0, outcome="CRASHED")
    rewards = read_rewards(write(row("a"), crashed, row("b", 0, outcome="CRASHED"), row("c", 0)))
    assert rewards.problems["a"].correct.tolist() == [True]
    assert (list(rewards.problems), rewards.bad_gold) == (["a", "c"], ("b",))
    rewards = read_rewards(write(row("a", 0, outcome="BAD_GOLD"), row("b"), row("a", 1)))
    assert (list(rewards.problems), rewards.bad_gold) == (["b"], ("a",))


def test_one_of_several_sets_has_to_be_chosen(write):
    path = write(row(set="dev"), row("b", set="test"))
    assert list(read_rewards(path, set_name="test").problems) == ["b"]
    with pytest.raises(DataError, match="several sets, choose one: dev, test"):
        read_rewards(path)
    with pytest.raises(DataError, match="no rows of the set 'x', only of dev, test"):
        read_rewards(path, set_name="x")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no graded samples"),
        ([row(outcome="BAD_GOLD")], "no graded samples that count"),
        ([{"reward": 1}], r"line 1: there is no 'problem_id', only reward"),
        ([{"x": 1}], "no 'problem_id' and no 'reward', only x"),
        ([3], "only nothing"),
        ([row(), row(reward=None)], r"line 3: reward must be a number in \[0, 1\], got None"),
        ([row(reward=1.5)], "got 1.5"),
        ([row(reward=float("nan"))], "got nan"),
        ([row(reward="1")], "got '1'"),
        ([row(None)], "problem_id must be text or a whole number, got None"),
        ([row(True)], "got True"),
        ([row(sample_index="0")], "sample_index must be a whole number, got '0'"),
        ([row(sample_index=0.5)], "got 0.5"),
        ([row(sample_index=0), row()], "line 3: some rows have a sample_index and some have none"),
        ([row(outcome="passed")], "outcome must be one of CORRECT, WRONG.* got 'passed'"),
        ([row(sample_index=2), row(sample_index=2)], "sample 2 of problem 'a' occurs twice"),
    ],
)
def test_what_cannot_be_read_is_named(write, rows, message):
    with pytest.raises(DataError, match=message):
        read_rewards(write(*rows))


def test_numbers_of_a_csv_file_are_read_and_empty_cells_are_none(tmp_path):
    lines = ["problem_id,reward,outcome,sample_index", "a,0.5,WRONG,1", "a,1,CORRECT,0", "b,0,,0"]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    found = read_rewards(tmp_path / "x.csv").problems
    assert {name: each.rewards.tolist() for name, each in found.items()} == {
        "a": [1.0, 0.5],
        "b": [0.0],
    }
    assert found["a"].correct.tolist() == [True, False]


@pytest.mark.parametrize(
    ("line", "message"),
    [("a,much,0", "line 2: reward must be a number"), ("a,1,x", "sample_index must be")],
)
def test_a_cell_that_is_not_a_number_is_named(tmp_path, line, message):
    (tmp_path / "x.csv").write_text(f"problem_id,reward,sample_index\n{line}\n")
    with pytest.raises(DataError, match=message):
        read_rewards(tmp_path / "x.csv")


def rewards(bad_gold=(), **problems):
    """``a="110"``: three samples of problem a, the first two correct."""
    return Rewards(
        problems={
            name: ProblemRewards(
                rewards=np.array([float(s) for s in samples]),
                correct=np.array([s == "1" for s in samples]),
            )
            for name, samples in problems.items()
        },
        bad_gold=bad_gold,
    )


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
