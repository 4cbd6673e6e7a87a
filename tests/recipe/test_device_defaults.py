from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph.recipe import load_recipe, recipe_toml, resolve_recipe
from dph.recipe.objective import AnchorSettings, ObjectiveSettings

LORA = {"adapter": {"kind": "lora"}}


def recipe(**sections):
    table = {"model": {"path": "m"}, "data": {"train": "t.jsonl", "verifier": "number"}}
    for name, values in sections.items():
        table[name] = {**table.get(name, {}), **values}
    return resolve_recipe(table)


@pytest.fixture
def installed(monkeypatch):
    """Whether every package of an extra is installed."""

    def choose(there):
        monkeypatch.setattr("dph.recipe.extras.find_spec", lambda _: there or None)

    return choose


def test_a_cpu_computes_as_it_did_before_gpus_had_defaults(installed):
    installed(True)
    decided = recipe().on_device(cuda=False)
    assert (decided.model.dtype, decided.model.kernels) == ("float32", "torch")
    assert (decided.sampling.max_rows, decided.sampling.cache_tokens) == (256, 262144)


@pytest.mark.parametrize("there", [True, False])
def test_a_gpu_multiplies_in_16_bits_and_samples_by_its_memory(installed, there):
    installed(there)
    decided = recipe().on_device(cuda=True)
    kernels = "liger" if there else "torch"
    assert (decided.model.dtype, decided.model.kernels) == ("bfloat16", kernels)
    assert (decided.sampling.max_rows, decided.sampling.cache_tokens) == ("auto", "auto")
    assert recipe().on_device(cuda=True, bfloat16=False).model.dtype == "float32"


@pytest.mark.parametrize("cuda", [True, False])
def test_what_a_recipe_says_stays(cuda):
    said = recipe(
        model={"dtype": "float32", "kernels": "liger"},
        sampling={"max_rows": 3, "cache_tokens": 400},
    )
    assert said.on_device(cuda=cuda) == said


@pytest.mark.parametrize("cuda", [True, False])
@pytest.mark.parametrize("weights", ["bfloat16", "nf4"])
def test_narrow_weights_compute_in_bfloat16_everywhere(weights, cuda):
    narrow = recipe(model={"weights": weights, **LORA})
    assert narrow.on_device(cuda=cuda, bfloat16=False).model.dtype == "bfloat16"


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"model": {"weights": "nf4"}}, 'weights = "nf4" are frozen: add [model.adapter]'),
        (
            {"model": {"weights": "nf4", "dtype": "float32", **LORA}},
            'weights = "nf4" needs computation in bfloat16',
        ),
        (
            {"model": {"weights": "nf4", **LORA}, "sampling": {"engine": "vllm"}},
            'sampling.engine = "vllm" reads whole weights',
        ),
        ({"sampling": {"max_rows": 0}}, "max_rows: should be 'auto' or a number above 0, got 0"),
        ({"sampling": {"cache_tokens": "all"}}, "or a number above 0, got 'all'"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(sections, told):
    with pytest.raises(SettingsError) as refused:
        recipe(**sections)
    assert told in str(refused.value)


def anchor(samples, divergence="forward_kl"):
    return AnchorSettings(divergence=divergence, weight=0.1, samples=samples)


@pytest.mark.parametrize(
    ("samples", "read"),
    [
        ("pool", None),
        ("pool:runs/a/pool", Path("runs/a/pool")),
    ],
)
def test_each_kind_is_one_value(samples, read):
    found = anchor(samples)
    assert found.pool == read
    objective = ObjectiveSettings(anchors={"one": found})
    assert objective.rehearses_pool == (samples == "pool")


@pytest.mark.parametrize("samples", ["", "pools", "pool:", "shop:kept", "recent:4"])
def test_anything_else_is_refused_with_what_is_allowed(samples):
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
