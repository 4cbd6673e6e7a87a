"""What is consolidated, and where the result comes to lie."""

import pytest

from dph.errors import CheckpointError, ModelError, SettingsError
from dph.runs.finished_models import consolidation_source


def model_in(place):
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    return place


@pytest.fixture
def run(tmp_path):
    """A run with two checkpoints; its recipe names what is there."""
    place = tmp_path / "runs" / "grpo"
    for step in (10, 20):
        model_in(place / "checkpoints" / f"step_{step:06d}")
    model_in(tmp_path / "base")
    (tmp_path / "p.jsonl").write_text('{"problem_id": "a", "prompt": "?", "answer": "b"}\n')
    text = 'method = "grpo"\nmodel.path = "../../base"\ndata.train = "../../p.jsonl"\n'
    (place / "recipe.toml").write_text(text + 'data.verifier = "exact"\n')
    return place


def test_of_a_run_it_is_the_newest_model(run):
    found = consolidation_source(run, None)
    assert found.model == run / "checkpoints" / "step_000020"
    assert (found.recipe, found.place) == (run / "recipe.toml", run)
    assert found.beside == run.with_name("grpo-consolidated")


def test_of_a_checkpoint_it_is_that_with_its_runs_recipe(run):
    checkpoint = run / "checkpoints" / "step_000010"
    found = consolidation_source(checkpoint, None)
    assert (found.model, found.recipe, found.place) == (checkpoint, run / "recipe.toml", run)
    assert found.beside == run.with_name("grpo-step_000010-consolidated")
    (run / "samples.parquet").touch()
    assert found.evaluated() is None  # those are of step 20
    assert consolidation_source(run, None).evaluated() == run / "samples.parquet"


def test_a_consolidated_checkpoint_is_that_of_the_run_around_it(run):
    after = model_in(run / "consolidation" / "checkpoints" / "step_000200")
    (run / "consolidation" / "recipe.toml").write_text("")
    found = consolidation_source(after, None)
    assert (found.model, found.place) == (after, run)
    assert consolidation_source(run, None).model == after


def test_a_model_outside_of_runs_needs_a_recipe(run, tmp_path):
    trl = model_in(tmp_path / "trl" / "checkpoint-500")
    with pytest.raises(SettingsError, match=r"checkpoint-500 is not a run.*--recipe FILE"):
        consolidation_source(trl, None)
    found = consolidation_source(trl, run / "recipe.toml")
    assert (found.model, found.recipe, found.place) == (trl, run / "recipe.toml", trl)
    assert found.beside == trl.with_name("checkpoint-500-consolidated")


def test_what_is_no_model_is_named(run, tmp_path):
    for place in (tmp_path / "nowhere", run / "checkpoints"):
        with pytest.raises(ModelError, match=f"{place.name} is neither a run nor the directory of"):
            consolidation_source(place, run / "recipe.toml")


def test_a_run_without_a_checkpoint_is_refused(run):
    (run / "checkpoints").rename(run / "elsewhere")
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        consolidation_source(run, None)


def test_an_adapter_is_to_be_exported_first(run):
    newest = run / "checkpoints" / "step_000020"
    (newest / "config.json").rename(newest / "adapter_config.json")
    with pytest.raises(SettingsError, match=r"is an adapter.*dph export"):
        consolidation_source(run, None)


@pytest.mark.parametrize("inside", [".", "consolidation", "checkpoints/../mine"])
def test_nothing_is_written_into_what_is_consolidated(run, inside):
    found = consolidation_source(run, None)
    with pytest.raises(SettingsError, match=r"which must not be overwritten.*--out"):
        found.require_beside(run / inside)
    found.require_beside(found.beside)
