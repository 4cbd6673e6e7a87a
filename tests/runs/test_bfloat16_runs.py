import re
import shutil

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from dph._base.provenance import install_command
from dph.errors import SettingsError
from dph.model.loading import load_model
from dph.model.policies import load_policy
from dph.runs.directory import latest_checkpoint
from dph.runs.prepare import prepare
from dph.runs.progress import Silent
from dph.runs.run import run
from dph.runs.written_models import export, interpolation_stage

NARROW = {"dtype": "bfloat16", "weights": "bfloat16"}
LORA = {"adapter": {"kind": "lora", "rank": 4, "alpha": 8.0}}


def settings_of(kind):
    """The ``[model]`` of a run, frozen under an adapter or trained as a whole."""
    if kind in ("lora", "dora"):
        return {"adapter": {**LORA["adapter"], "kind": kind}}
    if kind == "whole":
        pytest.importorskip("torchao", reason="the extra low-memory is not installed")
        return NARROW
    if kind == "nf4":
        pytest.importorskip("bitsandbytes", reason="the extra nf4 is not installed")
    return NARROW | LORA | {"weights": "nf4" if kind == "nf4" else "bfloat16"}


@pytest.fixture
def make_recipe(make_recipe, make_model, tmp_path):
    """bitsandbytes, on a CPU, reads blocks of 64 numbers wrongly where a row is shorter."""
    make_model(width=64).save_pretrained(tmp_path / "model")
    return make_recipe


def weights_of(directory, kind):
    name = "model.safetensors" if kind == "whole" else "adapter_model.safetensors"
    return load_file(latest_checkpoint(directory / "checkpoints") / name)


@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("adapter", "nf4", "dora")),
        "whole",
        "lora",
    ],
)
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


@pytest.mark.parametrize("kind", ["adapter", "nf4"])
def test_an_exported_model_is_the_base_in_its_files_plus_the_adapter(make_recipe, tmp_path, kind):
    """So the frozen weights are those of the base, rounded once: the base was not touched."""
    recipe = make_recipe("grpo", model=settings_of(kind), train={"learning_rate": 0.05})
    run(recipe, tmp_path / "run")
    base = load_model(tmp_path / "model", device="cpu").state_dict()
    merged = load_model(export(tmp_path / "run", tmp_path / "out"), device="cpu").state_dict()
    assert torch.equal(base["model.norm.weight"], merged["model.norm.weight"])
    name = "model.layers.0.self_attn.q_proj.weight"
    difference = merged[name] - base[name]
    # A product of matrices of rank 4 (alpha / rank = 2), in float32.
    assert torch.linalg.matrix_rank(difference, rtol=1e-4) <= 4
    assert difference.abs().max() > 1e-3


NF4 = torch.tensor(
    [
        *(-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0),
        *(0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0),
    ]
)
"""Quantiles of a normal distribution between -1 and 1 (arXiv:2305.14314, appendix E)."""


def nearest_codes(weight):
    """``weight`` by blocks of 64 numbers, each the nearest of 16 multiples of the largest one."""
    blocks = weight.reshape(-1, 64)
    largest = blocks.abs().amax(dim=1, keepdim=True)
    codes = (blocks / largest)[..., None].sub(NF4).abs().argmin(dim=-1)
    return (NF4[codes] * largest).reshape(weight.shape)


def test_a_base_in_four_bits_has_the_nearest_codes_of_every_block(make_recipe, tmp_path):
    recipe = make_recipe("grpo", model=settings_of("nf4"))
    with prepare(recipe, tmp_path / "run") as plan:
        model = load_policy(plan.initial, plan.recipe.model, initial=plan.initial, seed=0)
    layer = model.model.layers[0].mlp.down_proj
    inputs = torch.eye(layer.in_features, dtype=torch.bfloat16)
    base = load_model(tmp_path / "model", device="cpu").state_dict()
    with torch.no_grad():
        rows = layer(inputs).float().T  # the adapter adds 0 yet
    exact = base["model.layers.0.mlp.down_proj.weight"].bfloat16().float()
    least = (nearest_codes(exact) - exact).abs()
    # A block's largest number has 8 bits of the range of 256 blocks, and products have 8.
    assert ((rows - exact).abs() <= least + 2**-7 * exact.abs().max()).all()
    assert least.max() > 2**-4 * exact.abs().max()  # of 16 codes
    assert model.lm_head.weight.dtype == model.model.norm.weight.dtype == torch.bfloat16
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}


def test_models_that_four_bits_would_round_away_are_refused(make_recipe, tmp_path):
    recipe = make_recipe("grpo", model=NARROW | LORA | {"weights": "nf4"})
    with (
        prepare(recipe, tmp_path / "run", stage="evaluate") as plan,
        pytest.raises(SettingsError, match=r'between two others.*set model.weights = "bfloat16"'),
    ):
        interpolation_stage(plan, [0.5], Silent())


def test_a_base_in_four_bits_without_its_package_is_refused(make_recipe, tmp_path, monkeypatch):
    make_recipe()
    monkeypatch.setattr("dph.recipe.tables.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=re.escape(install_command("nf4"))):
        load_model(tmp_path / "model", device="cpu", weights="nf4")
