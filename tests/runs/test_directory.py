import json
from pathlib import Path

import pytest

from dph.errors import CheckpointError, DataError
from dph.recipe import EvaluationSettings, load_recipe
from dph.runs import directory as directories
from dph.runs.directory import (
    BestCheckpoint,
    RunDirectory,
    checkpoint_of,
    note_beginning,
    read_best,
    read_software,
    step_of,
    write_best,
)

BEST = BestCheckpoint(step=20, score="pass_at_8", value=0.25)


@pytest.fixture
def note(make_recipe, tmp_path, monkeypatch):
    recipe = make_recipe("grpo")

    def note(dph, done):
        monkeypatch.setattr(
            directories, "version", lambda name: dph if name == "dph-rl" else f"of {name}"
        )
        note_beginning(recipe, tmp_path, done=done)
        return [(row["first_step"], row["dph"]) for row in read_software(tmp_path)]

    return note


def test_versions_are_noted_from_the_first_step_on(note, tmp_path):
    assert note("1", 0) == [(1, "1")]
    (row,) = read_software(tmp_path)
    assert (row["torch"], row["transformers"]) == ("of torch", "of transformers")
    assert load_recipe(tmp_path / "recipe.toml").method == "grpo"


def test_software_is_noted_from_where_it_goes_on_and_forgotten_with_its_steps(note):
    assert note("1", 0) == note("1", 10) == [(1, "1")]
    assert note("2", 10) == note("2", 20) == [(1, "1"), (11, "2")]
    assert note("3", 10) == [(1, "1"), (11, "3")]
    assert note("3", 0) == [(1, "3")]


def test_another_engine_names_itself(make_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "version", lambda name: f"of {name}")
    recipe = make_recipe("grpo")
    train = recipe.train.model_copy(update={"engine": "verl"})
    note_beginning(recipe.model_copy(update={"train": train}), tmp_path, done=0)
    assert read_software(tmp_path)[0]["verl"] == "of verl"


@pytest.mark.parametrize("damaged", [{}, [1], [{"dph": "1"}]])
def test_a_damaged_file_is_refused_by_name(damaged, tmp_path):
    (tmp_path / "software.json").write_text(json.dumps(damaged))
    with pytest.raises(DataError, match=r"software\.json is damaged"):
        read_software(tmp_path)


def test_the_best_is_known_while_its_checkpoint_is_there_and_the_score_is_the_same(tmp_path):
    assert read_best(tmp_path, score="pass_at_8") is None
    write_best(tmp_path, BEST)
    assert read_best(tmp_path, score="pass_at_8") is None
    (tmp_path / "step_000020").mkdir()
    assert read_best(tmp_path, score="pass_at_8") == BEST
    assert read_best(tmp_path, score="greedy") is None
    assert read_best(tmp_path, score=None) is None


@pytest.mark.parametrize("content", ["", "[]", '{"schema": 1}', '{"schema": 1, "step": 3, "x": 1}'])
def test_a_damaged_note_of_the_best_is_named(tmp_path, content):
    (tmp_path / "best.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"best\.json is damaged"):
        read_best(tmp_path, score="mean")


def test_a_run_ends_with_the_newest_or_the_best_checkpoint(tmp_path):
    run = RunDirectory(tmp_path)
    best = EvaluationSettings(result="best", keep_best="pass_at_8", every=10)
    assert run.result(best) is None
    for step in (20, 1000000):
        checkpoint_of(run.checkpoints, step).mkdir(parents=True)
    assert run.result(EvaluationSettings()) == tmp_path / "checkpoints" / "step_1000000"
    assert run.result(best) == tmp_path / "checkpoints" / "step_1000000"  # none was measured yet
    write_best(run.checkpoints, BEST)
    assert run.result(best) == tmp_path / "checkpoints" / "step_000020"


def test_the_step_of_a_checkpoint_is_in_its_name_and_that_of_another_model_is_0():
    assert step_of(Path("run/checkpoints/step_000040")) == 40
    assert step_of(Path("models/Qwen2.5")) == step_of(Path("step_4")) == 0
