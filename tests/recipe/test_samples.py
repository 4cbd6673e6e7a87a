"""One key names the stored answers that a recipe reads."""

from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph.recipe import load_recipe, recipe_toml
from dph.recipe.objective import AnchorSettings, ObjectiveSettings


def anchor(samples, divergence="forward_kl"):
    return AnchorSettings(divergence=divergence, weight=0.1, samples=samples)


@pytest.mark.parametrize(
    ("samples", "divergence", "read"),
    [
        ("pool", "forward_kl", (None, None)),
        ("pool:runs/a/pool", "forward_kl", (Path("runs/a/pool"), None)),
        ("recent:4", "jensen_shannon", (None, 4)),
    ],
)
def test_each_kind_is_one_value(samples, divergence, read):
    found = anchor(samples, divergence)
    assert (found.pool, found.recent) == read
    objective = ObjectiveSettings(anchors={"one": found})
    assert objective.rehearses_pool == (samples == "pool")


@pytest.mark.parametrize("samples", ["", "pools", "pool:", "store:broad", "recent", "recent:-1"])
def test_anything_else_is_refused_with_what_is_allowed(samples):
    with pytest.raises(ValueError, match=r"'pool', 'pool:DIRECTORY' or 'recent:STEPS', got"):
        anchor(samples)


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
