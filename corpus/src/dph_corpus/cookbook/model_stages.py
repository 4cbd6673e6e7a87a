"""The stages of models: base, fine-tuning, pool and RL, and what is measured of each."""

import shutil
from pathlib import Path
from typing import Any

from dph._base.files import make_directory, read_json, write_json
from dph.model.policies import directory_fingerprint
from dph.recipe import Recipe
from dph.runs.directory import EvaluationDirectory, RunDirectory
from dph.runs.evaluate.scores import read_evaluation
from dph.runs.run import evaluate, presample, run
from dph_corpus.base.base import train_base
from dph_corpus.base.sft import train_sft
from dph_corpus.cookbook.stages import Digests, Pipeline
from dph_corpus.shards import digest


def base_stage(pipeline: Pipeline) -> Digests:
    """The base model."""
    if pipeline.cookbook.base is None:
        return {}
    recipe = pipeline.cookbook.base_recipe(pipeline.directory)
    out = pipeline.directory / "base"
    return {"base": directory_fingerprint(train_base(recipe, out, pipeline.progress, replace=True))}


def sft_stage(pipeline: Pipeline) -> Digests:
    """Fine-tuning, stage by stage."""
    if pipeline.cookbook.sft is None:
        return {}
    recipe = pipeline.cookbook.sft_recipe(pipeline.directory)
    out = pipeline.directory / "sft"
    train_sft(recipe, out, pipeline.progress, replace=True)
    return {
        stage.name: directory_fingerprint(out / stage.name / "model") for stage in recipe.stages
    }


def evaluate_stage(pipeline: Pipeline) -> Digests:
    """Pass@k of the models before RL but the last one, which RL measures itself."""
    if (rl := pipeline.cookbook.rl) is None:
        return {}
    models = _models_before_rl(pipeline)
    made_from = {
        "models": {name: directory_fingerprint(place) for name, place in models.items()},
        "settings": rl.model_dump(mode="json"),
        "seed": pipeline.cookbook.seed_of_models,
        "world": dict(pipeline.world.digests) if pipeline.world else {},
    }
    marker = _rl(pipeline) / "made_from.json"
    if not marker.is_file() or read_json(marker) != made_from:  # a run would refuse what is there
        shutil.rmtree(_rl(pipeline), ignore_errors=True)
        make_directory(_rl(pipeline))
        write_json(marker, made_from)
    made = {}
    for name, model in list(models.items())[:-1]:
        recipe = _recipes(pipeline, model)[rl.methods[0]]
        evaluate(recipe, _rl(pipeline) / name, progress=pipeline.progress)
        made[name] = _measured(RunDirectory(_rl(pipeline) / name).base)
    return made


def pool_stage(pipeline: Pipeline) -> Digests:
    """The pool of the fine-tuned model, which all methods share."""
    needing = [recipe for recipe in _recipes(pipeline).values() if recipe.needs_pool]
    if not needing:
        return {}
    presample(needing[0], _rl(pipeline) / needing[0].name, progress=pipeline.progress)
    manifest = read_json(_rl(pipeline) / "pool" / "manifest.json")  # it also names directories
    return {"pool": digest(manifest["files"])}


def rl_stage(pipeline: Pipeline) -> Digests:
    """A run of every method from the same model, pool and budget, as `dph run` does it."""
    made = {}
    for name, recipe in _recipes(pipeline).items():
        place = _rl(pipeline) / name
        if run(recipe, place, progress=pipeline.progress).trained.stopped:
            raise KeyboardInterrupt
        if (newest := RunDirectory(place).result(recipe.evaluate)) is not None:
            made[f"{name} weights"] = directory_fingerprint(newest)
        made[name] = _measured(EvaluationDirectory(place))
    return made


def evaluations(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    """``evaluation.json`` of every model, by the name that the report has: in order of training."""
    if (rl := pipeline.cookbook.rl) is None:
        return {}
    *before, last = _models_before_rl(pipeline)
    places = {name: RunDirectory(_rl(pipeline) / name).base for name in before}
    places[last] = RunDirectory(_rl(pipeline) / rl.methods[0]).base
    places |= {name: EvaluationDirectory(_rl(pipeline) / name) for name in rl.methods}
    return {name: read_evaluation(place.evaluation) for name, place in places.items()}


def _models_before_rl(pipeline: Pipeline) -> dict[str, Path]:
    """The models by the names of their evaluations, in order of training."""
    stages = [stage["name"] for stage in (pipeline.cookbook.sft or {}).get("stages", [])]
    models = {"base": pipeline.directory / "base" / "model"}
    return models | {name: pipeline.directory / "sft" / name / "model" for name in stages}


def _recipes(pipeline: Pipeline, model: Path | None = None) -> dict[str, Recipe]:
    """The recipe of every method; ``model`` in place of the fine-tuned one."""
    initial = model or list(_models_before_rl(pipeline).values())[-1]
    tables = pipeline.world.recipe if pipeline.world else {}
    return pipeline.cookbook.rl_recipes(initial, _rl(pipeline) / "pool", tables)


def _rl(pipeline: Pipeline) -> Path:
    return pipeline.directory / "rl"


def _measured(place: EvaluationDirectory) -> str:
    """A digest of the measurements; the evaluation also names the model's directory."""
    return digest(read_evaluation(place.evaluation)["sets"])
