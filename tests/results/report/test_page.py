"""Facts of the page: progress of training, turns and tools."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from dph._base.files import only_writer
from dph.recipe import resolve_recipe
from dph.records import Turn
from dph.results.report.page import training_progress, turn_facts
from dph.tasks.environments import ToolResult, turns_text


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
        one = training_progress(tmp_path, recipe, rows(4))
    assert (one["step"], one["steps"], one["state"]) == (4, 10, "running")
    assert one["seconds_left"] == pytest.approx(6 * 2.0)


def test_without_the_lock_it_is_stopped_failed_or_finished_and_nothing_without_steps(
    tmp_path, recipe
):
    def state(steps):
        one = training_progress(tmp_path, recipe, rows(steps))
        assert one["seconds_left"] is None
        return one["state"]

    assert state(4) == "stopped"
    assert state(10) == "finished"
    (tmp_path / "failed_batch_step_000005.json").touch()
    assert state(4) == "failed"
    assert state(6) == "stopped"  # it was started again, and got beyond
    assert training_progress(tmp_path, recipe, []) is None
    assert training_progress(tmp_path, None, rows(4)) is None


ANSWER, CALL = Turn("", "a"), Turn("", "CALL look()")
FAILED = Turn("look", ToolResult.of_error("look", "no").text)


def row(problem, index, outcome, *turns):
    text = turns_text([*turns, ANSWER])
    names = ("set", "problem_id", "sample_index", "outcome", "text")
    return dict(zip(names, ("dev", problem, index, outcome, text), strict=True))


ROWS = [
    row("p", -1, "CORRECT"),  # the greedy answer
    row("p", 0, "CORRECT", CALL, Turn("look", "hall")),
    row("p", 1, "WRONG"),
    row("q", 0, "CORRECT", CALL, FAILED, CALL, Turn("look", "attic")),
    row("q", 1, "CORRECT", Turn("reset", "Go."), CALL, Turn("error", "{'error': 'no tool'}")),
]


def run(path, rows=ROWS):
    recipe = SimpleNamespace(environment=SimpleNamespace(path=path))
    return SimpleNamespace(
        key="r0",
        label="grpo",
        results=SimpleNamespace(recipe=recipe),
        samples=rows and pa.Table.from_pylist(rows),
        scores={"dev": SimpleNamespace(samples=2)},
    )


def test_pass_at_k_grows_with_the_turns_that_count_and_calls_are_counted_by_tool():
    [facts] = turn_facts([run("shelf:Shelf")])
    assert (facts["label"], facts["set_name"], facts["k"]) == ("grpo", "dev", 2)
    assert [(r["turns"], r["share"], r["right"]) for r in facts["turns"]] == [
        (1, 0.25, 0.0),
        (2, 0.5, 1.0),
        (3, 0.25, 1.0),
    ]
    # Pass@2 of two samples is whether one of them is right: none, then both problems.
    assert [r["within"] for r in facts["turns"]] == [0.0, 1.0, 1.0]
    told = [(r["tool"], r["calls"], pytest.approx(r["failed"])) for r in facts["tools"]]
    assert told == [("error", 0.25, 1.0), ("look", 0.75, 1 / 3)]


def test_answers_of_one_turn_have_no_such_table():
    assert turn_facts([run(None), run("shelf:Shelf", None)]) == []
