"""Where that lies on this machine which a resolved recipe names; the network is never asked."""

from pathlib import Path

from dph.recipe import ModelSettings, Recipe
from dph.recipe.hub_names import hub_file, is_model_id, names_hub


def is_on_hub(model: ModelSettings) -> bool:
    """Whether ``model.path`` names a model of the Hub: no directory is called so."""
    return is_model_id(model.path) and not Path(model.path).exists()


def uses_hub(recipe: Recipe) -> bool:
    """Whether the recipe names anything on the Hub."""
    files = (recipe.data.train, *(one.path for one in recipe.data.sets.values()))
    return is_on_hub(recipe.model) or any(map(names_hub, files))


def model_directory(model: ModelSettings) -> Path:
    """The model's directory: its path, or the one in the cache.

    Raises:
        ModelError: it is a model of the Hub and not in the cache, which ``resolve_names`` fills.
    """
    if not is_on_hub(model):
        return Path(model.path)
    from dph.model.hub.cache import model_snapshot  # noqa: PLC0415 - huggingface_hub is slow to import

    return model_snapshot(model.path, model.revision, fetch=False)


def problems_file(path: Path) -> Path:
    """A file of problems: its path, or the one in the cache.

    Raises:
        DataError: it is one of the Hub and not in the cache, which ``resolve_names`` fills.
    """
    file = hub_file(path)
    if file is None:
        return path
    from dph.model.hub.cache import dataset_file  # noqa: PLC0415 - as above

    return dataset_file(file, fetch=False)
