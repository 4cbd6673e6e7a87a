"""A study on Countdown, with everything heavy replaced by something small."""

from small_study import run_here


def test_it_runs_from_the_world_to_the_scores(tmp_path):
    sizes = {"train": 8, "in_domain": 3, "cross_domain": 3, "unlabelled": 1}
    _, _, rows = run_here(tmp_path, "countdown", sizes)
    assert {row.method for row in rows.values()} == {"base", "grpo"}
    for row in rows.values():
        assert {score.set for score in row.scores} == {"in_domain", "cross_domain"}
