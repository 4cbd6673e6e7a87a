"""A run's recipe is left behind before anything is drawn, where it names the Hub."""

from pathlib import Path

from dph._base.files import make_directory
from dph.model.hub import uses_hub
from dph.recipe import Recipe, save_recipe


def pin(recipe: Recipe, directory: Path) -> None:
    """Write the recipe with its commits into a run's directory that has none yet.

    Training writes it anyway. Here it comes before pools and stores, so that a run which is stopped
    while they are made goes on with the same model and data, whatever is pushed meanwhile.

    Raises:
        DataError: the directory cannot be written.
    """
    path = directory / "recipe.toml"
    if uses_hub(recipe) and not path.exists():
        make_directory(directory)
        save_recipe(recipe, path)
