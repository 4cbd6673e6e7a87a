import json

import pytest

from dph.errors import DataError
from dph.recipe import ModelSettings, resolve_recipe, save_recipe
from dph.results.read.found_runs import runs_at
from dph.results.read.run_results import RunResults, is_model

COMMIT = "a" * 40


def evaluation(directory, model="m"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "evaluation.json").write_text(
        json.dumps({"model": str(model), "samples": 1, "sets": {}})
    )
    return directory


def run_of(directory, model):
    evaluation(directory, directory / "checkpoints" / "step_000040")
    table = {"model": {"path": str(model)}, "data": {"train": "train.jsonl"}}
    save_recipe(resolve_recipe(table), directory / "recipe.toml")
    return directory


@pytest.fixture
def model(tmp_path):
    (tmp_path / "base_model").mkdir()
    return tmp_path / "base_model"


@pytest.mark.parametrize("place", ["", "interpolated/0.5", "models/other", "evaluation_0.5"])
def test_a_run_and_what_lies_in_it_have_its_own_base_before_the_one_that_runs_share(
    tmp_path, model, place
):
    measured = evaluation(tmp_path / "grpo" / place)
    run = run_of(tmp_path / "grpo", model)
    assert RunResults(measured).initial.results is None
    beside = evaluation(tmp_path / "base", model)
    assert RunResults(measured).initial.results.path == beside
    inside = evaluation(run / "base", model)
    assert RunResults(measured).initial.results.path == inside


def test_a_model_that_was_measured_apart_has_the_base_next_to_it(tmp_path, model):
    base = evaluation(tmp_path / "measured/base", model)
    trained = evaluation(tmp_path / "measured/models/trl-run")
    assert RunResults(trained).initial.results.path == base
    assert runs_at([tmp_path / "measured"]) == [trained]


def test_a_run_with_a_base_of_its_own_belongs_to_no_recipe_above_it(tmp_path, model):
    run_of(tmp_path, model)
    run = evaluation(tmp_path / "trl-run")
    base = evaluation(run / "base", "another")
    assert RunResults(run).initial.results.path == base
    assert RunResults(run).recipe is None


def test_an_evaluation_of_another_model_is_named_and_not_taken(tmp_path, model):
    run = run_of(tmp_path / "grpo", model)
    other = evaluation(tmp_path / "base", tmp_path / "other")
    found = RunResults(run).initial
    assert found.results is None
    assert f"no evaluation of the initial policy {model} in" in found.why_none
    assert f"{other} belongs to {tmp_path / 'other'}" in found.why_none
    with pytest.raises(DataError, match="no evaluation of the initial policy"):
        found.required()


def test_without_a_recipe_any_evaluation_is_taken_and_a_base_has_none_of_its_own(tmp_path, model):
    alone = evaluation(tmp_path / "alone")
    beside = evaluation(tmp_path / "base", "anything")
    assert RunResults(alone).initial.results.path == beside
    run_of(tmp_path / "grpo", model)
    base = evaluation(tmp_path / "base", model)
    found = RunResults(base).initial
    assert (found.results, found.why_none) == (None, f"{base} is an initial policy's evaluation")


def test_a_quickstart_may_be_moved_and_looked_at_from_anywhere(tmp_path, model, monkeypatch):
    """It writes down where its base model lies from where it was started."""
    quickstart = tmp_path / "here" / "quickstart"
    quickstart.mkdir(parents=True)
    model.rename(quickstart / "base_model")
    run_of(quickstart / "grpo", quickstart / "base_model")
    evaluation(quickstart / "base", "quickstart/base_model")
    monkeypatch.chdir(tmp_path)
    assert str(RunResults(quickstart.relative_to(tmp_path) / "grpo").initial.results.path) == (
        "here/quickstart/base"
    )
    quickstart.rename(tmp_path / "moved")
    assert (
        RunResults(tmp_path / "moved" / "grpo").initial.results.path == tmp_path / "moved" / "base"
    )


def test_places_are_as_the_run_was_given(tmp_path, monkeypatch):
    (tmp_path / "runs" / "grpo").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "runs")
    runs = tmp_path / "runs"
    assert [*map(str, RunResults(runs / "grpo").base_places)] == [
        f"{runs}/grpo/base",
        f"{runs}/base",
    ]
    monkeypatch.chdir(tmp_path)
    assert [*map(str, RunResults((runs / "grpo").relative_to(tmp_path)).base_places)] == [
        "runs/grpo/base",
        "runs/base",
    ]


@pytest.mark.parametrize(
    ("recorded", "path", "same"),
    [
        ("/models/base", "/models/base", True),
        ("/models/other", "/models/base", False),
        ("quickstart/base_model", "/home/me/quickstart/base_model", True),
        ("../models/base", "/home/models/base", True),
        ("other/base_model", "/home/me/quickstart/base_model", False),
        (f"/cache/models--org--base/snapshots/{COMMIT}", "org/base", True),
        (f"/cache/models--org--base/snapshots/{'b' * 40}", "org/base", False),
        (f"/cache/models--org--other/snapshots/{COMMIT}", "org/base", False),
        ("..", "/home/models/base", False),
    ],
)
def test_a_recorded_model_is_compared_as_of_when_it_was_recorded(recorded, path, same):
    revision = COMMIT if path == "org/base" else None
    assert is_model(recorded, ModelSettings(path=path, revision=revision)) is same


@pytest.mark.parametrize("content", ["[]", '{"model": 1}', "{}"])
def test_what_is_no_evaluation_is_refused(tmp_path, model, content):
    run = run_of(tmp_path / "grpo", model)
    (evaluation(tmp_path / "base") / "evaluation.json").write_text(content)
    with pytest.raises(DataError, match=r"evaluation\.json is not an evaluation"):
        RunResults(run).initial  # noqa: B018
