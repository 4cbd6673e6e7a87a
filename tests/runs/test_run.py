import pytest

import dph
from dph import SettingsError
from dph.recipe import load_recipe


def test_a_recipe_runs_from_python_and_goes_on(tmp_path, make_recipe):
    recipe = make_recipe()
    first = dph.run(recipe, tmp_path / "run")
    assert first.trained.step == recipe.train.steps
    assert first.pool is not None
    again = dph.run(tmp_path / "run" / "recipe.toml", str(tmp_path / "run"))
    assert again.trained == first.trained
    assert load_recipe(tmp_path / "run" / "recipe.toml") == recipe.on_device(cuda=False)


def test_overrides_belong_to_the_path_of_a_recipe(make_recipe):
    with pytest.raises(SettingsError, match="change a Recipe before passing it"):
        dph.run(make_recipe(), seed=3)
