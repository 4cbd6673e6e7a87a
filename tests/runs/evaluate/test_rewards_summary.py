import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.rewards_file import ProblemRewards, Rewards, summarize_rewards


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


def values(summary):
    return {row.metric: row.estimate.value for row in summary.rows}


def test_each_problem_counts_by_its_own_number_of_samples():
    summary = summarize_rewards(rewards(a="1000", b="10"))
    # Pass@2: 1 - C(3, 2) / C(4, 2) = 1/2 for a, 1 for b.
    assert values(summary) == {"mean": 0.375, "pass_at_1": 0.375, "pass_at_2": 0.75}
    assert (summary.problems, summary.fewest_samples, summary.most_samples) == (2, 2, 4)
    assert summary.retention is None


def test_the_difference_is_paired_and_has_the_sign_of_the_first_file():
    summary = summarize_rewards(rewards(a="11", b="10"), rewards(b="00", a="10"), ks=[2])
    mean, pass_at_2 = summary.rows
    assert (mean.estimate.value, mean.against.value, mean.difference.mean) == (0.75, 0.25, 0.5)
    # Both problems gain exactly 1/2: with q = 0.025^(1/2) = 0.1581, q / 2 - (1 - q) = -0.7628.
    assert (mean.difference.lo, mean.difference.hi) == pytest.approx((-0.7628, 0.9209), abs=5e-5)
    assert pass_at_2.difference.mean == 0.5


def test_keep_and_explore_split_by_the_other_file():
    summary = summarize_rewards(
        rewards(a="1111", b="1111", c="0000"), rewards(a="1010", b="0000", c="0000"), retention_k=2
    )
    assert (summary.retention.keep, summary.retention.explore) == (1.0, 0.5)


def test_files_with_uneven_samples_say_nothing_of_keep():
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
