"""Recipes for tests of what engines are told, without a model or a file."""

from dph.recipe import resolve_recipe
from dph.recipe.section import nested

BASE = {
    "model.path": "model",
    "data.train": "problems.jsonl",
    "sampling.max_tokens": 20,
    "train.problems_per_step": 6,
    "train.samples_per_problem": 4,
    "train.minibatches": 2,
    "train.epochs": 3,
    "train.steps": 10,
    "train.checkpoint_every": 5,
    "train.rehearsal_per_step": 8,
}


def make_recipe(engine, method="dph_f", **changes):
    table = {**BASE, "train.engine": engine, **changes}
    return resolve_recipe({"method": method, **nested(table)}).on_device(cuda=False)
