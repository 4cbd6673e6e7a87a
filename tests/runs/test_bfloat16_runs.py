"""Whole runs whose weights are bfloat16 in memory: pool, training, evaluation and what is saved."""

import shutil

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from dph.model.loading import load_model
from dph.runs.directory import latest_checkpoint
from dph.runs.run import run
from dph.runs.written_models import export

NARROW = {"dtype": "bfloat16", "weights": "bfloat16"}
LORA = {"adapter": {"kind": "lora", "rank": 4, "alpha": 8.0}}


def settings_of(kind):
    """The ``[model]`` of a run, frozen under an adapter or trained as a whole."""
    if kind == "whole":
        pytest.importorskip("torchao", reason="the extra low-memory is not installed")
        return NARROW
    return NARROW | LORA


def weights_of(directory, kind):
    name = "model.safetensors" if kind == "whole" else "adapter_model.safetensors"
    return load_file(latest_checkpoint(directory / "checkpoints") / name)


@pytest.mark.parametrize("kind", ["adapter", "whole"])
def test_a_run_goes_from_its_pool_to_an_evaluation_and_goes_on_to_the_bit(
    make_recipe, tmp_path, kind
):
    model, learns = settings_of(kind), {"checkpoint_every": 2, "learning_rate": 0.05}
    whole = make_recipe("dph_f", model=model, train={"steps": 4, **learns})
    result = run(whole, tmp_path / "straight")
    rows = pq.read_table(tmp_path / "straight" / "samples.parquet").num_rows
    assert rows == 6 * (4 + 1)  # dev problems, samples and the greedy answer of each
    assert result.evaluation["sets"]["dev"]["problems"] == 6
    halfway = make_recipe("dph_f", model=model, train={"steps": 2, **learns})
    shutil.copytree(tmp_path / "straight" / "pool", tmp_path / "resumed" / "pool")
    run(halfway, tmp_path / "resumed")
    before = weights_of(tmp_path / "resumed", kind)
    run(whole, tmp_path / "resumed")
    ours, theirs = (weights_of(tmp_path / name, kind) for name in ("resumed", "straight"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert any(not torch.equal(before[name], theirs[name]) for name in theirs)
    saved = torch.bfloat16 if kind == "whole" else torch.float32  # an adapter stays wide
    assert {tensor.dtype for tensor in theirs.values()} == {saved}


def test_the_frozen_weights_of_an_adapter_are_those_of_the_base_rounded_once(make_recipe, tmp_path):
    """So the exported model is base plus adapter: the base itself was not touched."""
    recipe = make_recipe("grpo", model=NARROW | LORA, train={"learning_rate": 0.05})
    run(recipe, tmp_path / "run")
    base = load_model(tmp_path / "model", device="cpu").state_dict()
    merged = load_model(export(tmp_path / "run", tmp_path / "out"), device="cpu").state_dict()
    assert torch.equal(base["model.norm.weight"], merged["model.norm.weight"])
    name = "model.layers.0.self_attn.q_proj.weight"
    difference = merged[name] - base[name]
    # A product of matrices of rank 4 (alpha / rank = 2), in float32.
    assert torch.linalg.matrix_rank(difference, rtol=1e-4) <= 4
    assert difference.abs().max() > 1e-3
