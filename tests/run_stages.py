"""Stages of a run, each with a plan of its own as a command has."""

from dph.recipe import resolve_recipe
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.training_stage import train_stage


def staged(stage, recipe, directory, **options):
    with open_plan(recipe, directory, **options) as plan:
        return stage(plan, Silent())


def presampled(recipe, directory, **options):
    return staged(presample_stage, recipe, directory, **options)


def trained(recipe, directory, **options):
    return staged(train_stage, recipe, directory, **options)


def ran(recipe, directory, **options):
    return staged(run_stages, recipe, directory, **options)


def evaluated(recipe, directory, *, model=None, **options):
    """The document of a model's evaluation, of the initial one unless another is named."""
    with open_plan(recipe, directory) as plan:
        return evaluate_stage(plan, directory, Silent(), model=model or plan.initial, **options)


def recipe_of(table, sections):
    """The recipe of a table, with more keys of its sections."""
    more = {name: {**table.get(name, {}), **values} for name, values in sections.items()}
    return resolve_recipe({**table, **more})
