"""The verifiers and the environment of a recipe, without the parts that need torch."""

from collections.abc import Callable
from functools import partial

from dph.errors import SettingsError
from dph.recipe import DataSettings, Recipe
from dph.recipe.schema import SQL
from dph.tasks.environments import Environment, EnvironmentVerifier
from dph.tasks.sql.environment import sql_environment
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.base import Verifier


def verifier_maker(recipe: Recipe) -> Callable[[str], Verifier]:
    """Verifiers by name, with the recipe's databases, workers, time limit and own modules."""
    data = recipe.data
    return partial(
        make_verifier,
        databases=data.databases,
        workers=data.verifier_workers,
        timeout=data.verifier_timeout,
        modules=data.modules,
        **data.verifier_settings,
    )


def _environment(path: str, recipe: Recipe) -> Environment:
    settings, databases = recipe.environment, recipe.data.databases
    if path == SQL:
        if databases is None:
            raise SettingsError("environment.path = 'sql' needs data.databases, their directory")
        return sql_environment(
            databases, form=settings.form, limits=settings.limits, hidden=settings.hidden
        )
    return Environment(
        path,
        directories=recipe.data.modules,
        form=settings.form,
        limits=settings.limits,
        submits=settings.submits,
        hidden=settings.hidden,
        columns=settings.columns,
    )


def run_verifier(recipe: Recipe) -> Verifier:
    """The verifier of a run's training: that of ``[data]``, or of its ``[environment]``.

    Raises:
        SettingsError: it is unknown, the class cannot be used, or both a verifier and the class say
            what a trajectory is worth.
    """
    name, settings = recipe.data.verifier, recipe.environment
    if settings.path is None:
        return verifier_maker(recipe)(name)
    environment = _environment(settings.path, recipe)
    try:
        if not environment.rewards:
            return EnvironmentVerifier(environment, verifier_maker(recipe)(name))
        if name != DataSettings.model_fields["verifier"].default:
            raise SettingsError(
                f"data.verifier = {name!r}, and the class {settings.path!r} has 'get_reward': "
                "which of them says what a trajectory is worth? Leave one out"
            )
        return EnvironmentVerifier(environment, None)
    except BaseException:
        environment.close()
        raise
