import json
import shutil

import pytest
import torch

from dph.errors import CheckpointError, ModelError, SettingsError
from dph.model.loading import load_model, load_tokenizer
from dph.model.policies import weight_fingerprint
from dph.recipe import save_recipe
from dph.runs.directory import latest_checkpoint
from dph.runs.written_models import interpolated


@pytest.fixture
def run(tmp_path, make_recipe, make_model, tokenizer):
    """A run's recipe and checkpoint; the policy that it ends with is just another model."""
    directory = tmp_path / "run"
    directory.mkdir()
    save_recipe(make_recipe("grpo"), directory / "recipe.toml")
    checkpoint = directory / "checkpoints" / "step_000002"
    make_model(seed=1).save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    return directory


def loaded(path):
    return load_model(path, device="cpu")


def base_of(run):
    return run.parent / "model"


def test_zero_is_the_initial_policy_and_one_the_newest_checkpoint(run):
    final = latest_checkpoint(run / "checkpoints")
    for weight, end in ((0, base_of(run)), (1, final)):
        found = weight_fingerprint(loaded(interpolated(run, weight)))
        assert found == weight_fingerprint(loaded(end))


def test_half_way_every_weight_is_the_mean_of_the_two(run):
    path = interpolated(run, 0.5)
    assert path == run / "interpolated" / "0.5"
    found = loaded(path).state_dict()
    base, final = (loaded(p).state_dict() for p in (base_of(run), run / "checkpoints/step_000002"))
    for name, tensor in found.items():
        mean = (base[name].double() + final[name].double()) / 2
        assert torch.allclose(tensor.double(), mean, rtol=0, atol=2**-22)  # weights below 1


def test_an_early_checkpoint_takes_the_place_of_the_initial_policy_in_some_layers(
    run, make_model, tokenizer
):
    early = run / "checkpoints" / "step_000001"
    make_model(seed=3).save_pretrained(early)
    tokenizer.save_pretrained(early)
    path = interpolated(run, 0.5, step=1, layers=range(1))
    assert path == run / "interpolated" / "0.5-from-1-layers-0-1"
    places = path, early, run / "checkpoints" / "step_000002"
    found, start, final = (loaded(place).state_dict() for place in places)
    for name, tensor in found.items():
        mean = (start[name].double() + final[name].double()) / 2
        expected = mean if ".layers.0." in name else final[name].double()
        assert torch.allclose(tensor.double(), expected, rtol=0, atol=2**-22), name
    assert json.loads((path / "interpolation.json").read_text())["base"] == str(early.resolve())
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 7; it has those of 1, 2"):
        interpolated(run, 0.5, step=7)


def test_a_model_saved_in_half_precision_is_the_end_that_it_loads_as(run, make_model):
    make_model().bfloat16().save_pretrained(base_of(run))
    at_base = loaded(interpolated(run, 0))
    assert at_base.dtype == torch.float32
    assert weight_fingerprint(at_base) == weight_fingerprint(loaded(base_of(run)))


def test_the_directory_is_a_model_with_its_tokenizer_and_a_note(run, tokenizer):
    path = interpolated(run, 0.3)
    assert load_tokenizer(path).get_vocab() == tokenizer.get_vocab()
    note = json.loads((path / "interpolation.json").read_text())
    assert (note["schema"], note["weight"], note["final"]) == (1, 0.3, "step_000002")
    assert note["base"] == str(base_of(run).resolve())


def test_what_was_made_from_the_same_is_kept_and_another_checkpoint_makes_it_again(
    run, make_model, tokenizer
):
    path = interpolated(run, 0.5)
    (path / "evaluation.json").write_text("{}")
    run, moved = run.with_name("moved"), run
    shutil.move(moved, run)
    path = run / "interpolated" / "0.5"
    assert interpolated(run, 0.5) == path
    assert (path / "evaluation.json").exists()
    newer = run / "checkpoints" / "step_000003"
    make_model(seed=2).save_pretrained(newer)
    tokenizer.save_pretrained(newer)
    interpolated(run, 0.5)
    assert not (path / "evaluation.json").exists()
    assert json.loads((path / "interpolation.json").read_text())["final"] == "step_000003"


def test_half_a_model_is_never_there(run, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError("no space left")

    monkeypatch.setattr("dph.runs.written_models.write_json", fail)
    with pytest.raises(OSError, match="no space"):
        interpolated(run, 0.5)
    assert list((run / "interpolated").iterdir()) == []


def test_a_weight_outside_the_two_ends_has_to_be_asked_for_and_a_run_to_have_a_checkpoint(
    run, tmp_path
):
    with pytest.raises(SettingsError, match=r"between 0 .* and 1 .*got 1.5.*--extrapolate"):
        interpolated(run, 1.5)
    assert interpolated(run, 1.5, extrapolate=True).name == "1.5"
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        interpolated(tmp_path, 0.5)


def test_a_base_of_another_shape_is_refused_by_name_and_nothing_is_left(run):
    model = loaded(base_of(run))
    model.resize_token_embeddings(12)
    model.save_pretrained(base_of(run))
    with pytest.raises(ModelError, match=r"the first is .*: \(12, 16\) and \(9, 16\)"):
        interpolated(run, 0.5)
    assert not (run / "interpolated").exists()
