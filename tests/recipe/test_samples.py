"""One key names the stored answers that a recipe reads; the keys that it replaced are explained."""

from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph.recipe import load_recipe, recipe_toml, resolve_recipe
from dph.recipe.objective import AnchorSettings, ObjectiveSettings

MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}


def anchor(samples, divergence="forward_kl"):
    return AnchorSettings(divergence=divergence, weight=0.1, samples=samples)


@pytest.mark.parametrize(
    ("samples", "divergence", "read"),
    [
        ("pool", "forward_kl", (None, None, None)),
        ("pool:runs/a/pool", "forward_kl", (Path("runs/a/pool"), None, None)),
        ("store:broad", "distribution_kl", (None, "broad", None)),
        ("recent:4", "jensen_shannon", (None, None, 4)),
    ],
)
def test_each_kind_is_one_value(samples, divergence, read):
    found = anchor(samples, divergence)
    assert (found.pool, found.store, found.recent) == read
    objective = ObjectiveSettings(anchors={"one": found})
    assert objective.rehearses_pool == (samples == "pool")
    assert objective.rehearses_distributions == (samples == "store:broad")


@pytest.mark.parametrize(
    "samples", ["", "pools", "pool:", "store", "store:", "recent", "recent:-1"]
)
def test_anything_else_is_refused_with_what_is_allowed(samples):
    with pytest.raises(ValueError, match=r"'pool', 'pool:DIRECTORY', 'store:NAME' or 'recent:STE"):
        anchor(samples)


OLD = {
    "objective.anchors.a.store": ("elsewhere", "objective.anchors.a.samples = 'pool:elsewhere'"),
    "objective.anchors.a.distributions": ("broad", "objective.anchors.a.samples = 'store:broad'"),
    "objective.anchors.a.recent": (4, "objective.anchors.a.samples = 'recent:4'"),
    "self_consistency.store": ("broad", "self_consistency.samples = 'store:broad'"),
    "consolidation.store": ("after", "consolidation.samples = 'store:after'"),
}


@pytest.mark.parametrize("key", OLD)
def test_a_key_of_before_names_the_one_of_now(key, tmp_path):
    value, now = OLD[key]
    (tmp_path / "recipe.toml").write_text('[model]\npath = "m"\n[data]\ntrain = "t.jsonl"\n')
    with pytest.raises(SettingsError) as refused:
        load_recipe(tmp_path / "recipe.toml", overrides=[f"{key}={value}"])
    assert str(refused.value) == f"{key} = {value!r} is now {now}"


def test_an_engine_that_is_given_a_table_explains_it_too():
    with pytest.raises(ValueError, match=r"distributions = 'x' is now .*samples = 'store:x'"):
        AnchorSettings(divergence="distribution_kl", weight=0.1, distributions="x")


@pytest.mark.parametrize("section", ["self_consistency", "consolidation"])
@pytest.mark.parametrize("samples", ["pool", "after", "store:"])
def test_what_reads_a_store_alone_says_so(section, samples):
    with pytest.raises(SettingsError) as refused:
        resolve_recipe({**MINIMAL, section: {"samples": samples}})
    said = f"{section}.samples: reads a store: should be 'store:NAME', got {samples!r}"
    assert str(refused.value) == said


def test_a_pool_without_a_directory_is_refused_in_a_file_too(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[model]\npath = "m"\n[data]\ntrain = "t.jsonl"\n[objective.anchors.old]\n'
        'divergence = "alpha"\nsamples = "pool:"\n'
    )
    with pytest.raises(SettingsError, match="'recent:STEPS', got 'pool:'"):
        load_recipe(recipe)


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
