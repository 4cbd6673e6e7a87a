"""Votes among annotators: worth much where they err apart, nothing where they err together."""

import pytest

pytest.importorskip("lab.benchmarks.hostile", reason="a wheel has no benchmarks")

from lab.benchmarks.hostile.annotators import main, vote_of


def test_a_vote_is_right_more_often_than_an_answer_where_gaps_are_apart_and_not_where_shared():
    # 60 questions: a share of right answers has a standard error of at most 1/2 / sqrt(60), 0.065.
    apart, together = vote_of(0, 0.0, questions=60), vote_of(0, 1.0, questions=60)
    assert apart.right - apart.answers_right > 2 * 0.065
    assert abs(together.right - together.answers_right) < 2 * 0.065
    assert min(apart.share, together.share) > 0.9


def test_the_command_has_a_row_for_each_correlation(capsys):
    main(["--worlds", "1"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["0", "0.25", "0.5", "0.75", "1"]
