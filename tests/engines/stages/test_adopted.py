"""Weights of an engine become a checkpoint of the run, which says what it is."""

import json
from types import SimpleNamespace

import pytest
import torch

from dph.engines.stages.stage import adopt
from dph.errors import CheckpointError
from dph.model.loading import load_model
from dph.runs.directory import latest_checkpoint
from dph.runs.train.checkpoints import read_progress, read_verifiers
from engines.stages.recipes import make_recipe
from tiny_models import build_model, build_tokenizer


def bench():
    return SimpleNamespace(
        recipe=make_recipe("verl"),
        verifier=SimpleNamespace(name="exact", version="3"),
        tokenizer=build_tokenizer(),
    )


@pytest.fixture
def weights(tmp_path):
    """A directory as verl leaves it: float32 weights, bfloat16 in the configuration."""
    build_model().save_pretrained(tmp_path / "left")
    config = json.loads((tmp_path / "left" / "config.json").read_text())
    (tmp_path / "left" / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    (tmp_path / "left" / "training_args.bin").write_bytes(b"a pickle")
    return tmp_path / "left"


def test_it_holds_the_same_weights_and_names_their_dtype(weights, tmp_path):
    found = adopt(bench(), tmp_path, weights, step=10, digest="abcd")
    assert found.checkpoint == latest_checkpoint(tmp_path / "checkpoints")
    assert json.loads((found.checkpoint / "config.json").read_text())["dtype"] == "float32"
    names = {path.name for path in found.checkpoint.iterdir()}
    assert {"model.safetensors", "tokenizer.json", "trainer.json"} <= names
    assert "training_args.bin" not in names
    before, after = build_model(), load_model(found.checkpoint, device="cpu")
    for name, value in before.state_dict().items():
        assert torch.equal(value, after.state_dict()[name])


def test_it_says_how_far_it_is_and_what_graded_it(weights, tmp_path):
    found = adopt(bench(), tmp_path, weights, step=10, digest="abcd")
    progress = read_progress(found.checkpoint, digest="abcd")
    assert (progress.step, progress.optimizer_steps) == (10, 60)  # 2 mini-batches, 3 epochs
    assert [v.version for v in read_verifiers(found.checkpoint)] == ["3"]
    with pytest.raises(CheckpointError, match="other settings"):
        read_progress(found.checkpoint, digest="efgh")


def test_the_newest_are_kept(weights, tmp_path):
    for step in (5, 10):
        adopt(bench(), tmp_path, weights, step=step, digest="abcd")
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step_000010"]


def test_a_directory_without_weights_is_no_checkpoint(weights, tmp_path):
    (weights / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="one dtype"):
        adopt(bench(), tmp_path, weights, step=10, digest="abcd")
    assert latest_checkpoint(tmp_path / "checkpoints") is None
