"""Stages of a run, each with a plan of its own as a command has."""

from dph.recipe import resolve_recipe
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.prepare import prepare
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.training_stage import train_stage

VERBS = {presample_stage: "presample", train_stage: "train", run_stages: "run"}


def staged(stage, recipe, directory, **options):
    with prepare(recipe, directory, stage=VERBS[stage], **options) as job:
        return stage(job, Silent())


def presampled(recipe, directory, **options):
    return staged(presample_stage, recipe, directory, **options)


def trained(recipe, directory, **options):
    return staged(train_stage, recipe, directory, **options)


def ran(recipe, directory, **options):
    return staged(run_stages, recipe, directory, **options)


def evaluated(recipe, directory, *, model=None, **options):
    """The document of a model's evaluation, of the initial one unless another is named."""
    with prepare(recipe, directory, stage="evaluate") as job:
        return evaluate_stage(job, directory, Silent(), model=model or job.initial, **options)


def recipe_of(table, sections):
    """The recipe of a table, with more keys of its sections."""
    more = {name: {**table.get(name, {}), **values} for name, values in sections.items()}
    return resolve_recipe({**table, **more})
