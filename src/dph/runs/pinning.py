"""A run's recipe is left behind before anything is drawn, where it names the Hub."""

from pathlib import Path

from dph.files import make_directory
from dph.hub import is_on_hub
from dph.settings import Recipe, save_recipe
from dph.settings.hub_names import names_hub


def pin(recipe: Recipe, directory: Path) -> None:
    """Write the recipe with its commits into a run's directory that has none yet.

    Training writes it anyway. Here it comes before pools and stores, so that a run which is stopped
    while they are made goes on with the same model and data, whatever is pushed meanwhile.

    Raises:
        DataError: the directory cannot be written.
    """
    data = recipe.data
    paths = [data.train, *(one.path for one in data.sets.values())]
    path = directory / "recipe.toml"
    if path.exists() or not (is_on_hub(recipe.model) or any(map(names_hub, paths))):
        return
    make_directory(directory)
    save_recipe(recipe, path)
