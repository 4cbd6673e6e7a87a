"""Progress of a run: the state follows from its lock, its log and what a failure leaves."""

import pytest

from dph._base.files import only_writer
from dph.recipe import resolve_recipe
from dph.results.report.page import training_progress


@pytest.fixture
def recipe(tmp_path):
    return resolve_recipe(
        {
            "name": "words",
            "method": "grpo",
            "model": {"path": str(tmp_path / "model")},
            "data": {"train": str(tmp_path / "train.jsonl"), "sets": {}},
            "train": {"steps": 10},
        }
    )


def rows(steps):
    return [{"step": step, "seconds": 2.0 if step > 1 else 50.0} for step in range(1, steps + 1)]


def test_a_run_whose_lock_is_held_runs_and_its_latest_steps_say_how_long(tmp_path, recipe):
    with only_writer(tmp_path):
        (one,) = training_progress(tmp_path, recipe, rows(4))
    assert (one.step, one.steps, one.state) == (4, 10, "running")
    assert one.seconds_left == pytest.approx(6 * 2.0)


def test_without_the_lock_it_is_stopped_failed_or_finished_and_nothing_without_steps(
    tmp_path, recipe
):
    def state(steps):
        (one,) = training_progress(tmp_path, recipe, rows(steps), locks=())
        assert one.seconds_left is None
        return one.state

    assert state(4) == "stopped"
    assert state(10) == "finished"
    (tmp_path / "failed_batch_step_000005.json").touch()
    assert state(4) == "failed"
    assert state(6) == "stopped"  # it was started again, and got beyond
    assert training_progress(tmp_path, recipe, [], locks=()) == []
    assert training_progress(tmp_path, None, rows(4), locks=()) == []
