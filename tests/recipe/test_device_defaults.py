from pathlib import Path

import pytest

from dph.recipe import load_recipe, recipe_toml
from dph.recipe.objective import AnchorSettings, ObjectiveSettings
from minimal_recipe import resolved


@pytest.mark.parametrize("there", [True, False])
def test_auto_is_decided_by_the_device_and_by_the_packages_that_are_installed(monkeypatch, there):
    monkeypatch.setattr("dph.recipe.tables.find_spec", lambda _: there or None)
    cpu, gpu = (resolved().on_device(cuda=cuda) for cuda in (False, True))
    assert (cpu.model.dtype, cpu.model.kernels) == ("float32", "torch")
    assert (cpu.sampling.max_rows, cpu.sampling.cache_tokens) == (256, 262144)
    kernels = "liger" if there else "torch"
    assert (gpu.model.dtype, gpu.model.kernels) == ("bfloat16", kernels)
    assert (gpu.sampling.max_rows, gpu.sampling.cache_tokens) == ("auto", "auto")
    assert resolved().on_device(cuda=True, bfloat16=False).model.dtype == "float32"


@pytest.mark.parametrize("cuda", [True, False])
def test_what_a_recipe_says_stays_and_narrow_weights_compute_in_bfloat16(cuda):
    said = resolved(
        "model.dtype=float32; model.kernels=liger; sampling.max_rows=3; sampling.cache_tokens=400"
    )
    assert said.on_device(cuda=cuda) == said
    for weights in ("bfloat16", "nf4"):
        narrow = resolved(f'model.weights={weights}; model.adapter={{kind="lora"}}')
        assert narrow.on_device(cuda=cuda, bfloat16=False).model.dtype == "bfloat16"


def anchor(samples):
    return AnchorSettings(divergence="forward_kl", weight=0.1, samples=samples)


def test_stored_samples_are_those_of_the_runs_pool_or_of_a_directory():
    for samples, read in (("pool", None), ("pool:runs/a/pool", Path("runs/a/pool"))):
        found = anchor(samples)
        assert found.pool == read
        assert ObjectiveSettings(anchors={"one": found}).rehearses_pool == (samples == "pool")
    for samples in ("", "pools", "pool:", "shop:kept", "recent:4"):
        with pytest.raises(ValueError, match=r"'pool' or 'pool:DIRECTORY', got"):
            anchor(samples)


def test_a_directory_starts_at_the_recipe_and_a_typed_one_where_it_is_typed(tmp_path):
    recipe = tmp_path / "task" / "recipe.toml"
    recipe.parent.mkdir()
    recipe.write_text(
        '[model]\npath = "m"\n[data]\ntrain = "t.jsonl"\n[objective.anchors.old]\n'
        'divergence = "alpha"\nsamples = "pool:../other/pool"\n'
    )
    found = load_recipe(recipe)
    assert found.objective.anchors["old"].pool == recipe.parent / "../other/pool"
    recipe.write_text(recipe_toml(found))
    assert load_recipe(recipe) == found
    typed = load_recipe(recipe, overrides=["objective.anchors.old.samples=pool:here"])
    assert typed.objective.anchors["old"].pool == Path.cwd() / "here"
