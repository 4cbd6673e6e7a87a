"""The stages of models: base, fine-tuning, pool and RL, and what is measured of each."""

import shutil
from pathlib import Path
from typing import Any

import torch

from dph._base.files import make_directory, read_json, write_json
from dph.errors import SettingsError
from dph.model.policies import directory_fingerprint
from dph.recipe import Recipe
from dph.runs.directory import EvaluationDirectory, RunDirectory
from dph.runs.evaluate.scores import read_evaluation
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph_corpus.base.base import train_base
from dph_corpus.base.sft import train_sft
from dph_corpus.cookbook.settings import SETS, RLSettings
from dph_corpus.cookbook.stages import Digests, Kitchen
from dph_corpus.shards import digest
from lab.quickstart.recipes import THREADS, Size, parse_contender, quickstart_recipe, run_name
from lab.quickstart.stages import QuickstartStage, method_stages, stage_runner
from lab.worlds.sql.kind import sql_settings

BASE_POLICY = "base"
"""The directory in ``rl`` with the evaluation of what RL begins with: the last stage of SFT."""


def base_stage(kitchen: Kitchen) -> Digests:
    """The base model."""
    if kitchen.cookbook.base is None:
        return {}
    recipe = kitchen.cookbook.base_recipe(kitchen.directory)
    out = kitchen.directory / "base"
    return {"base": directory_fingerprint(train_base(recipe, out, kitchen.progress, replace=True))}


def sft_stage(kitchen: Kitchen) -> Digests:
    """Fine-tuning, stage by stage."""
    if kitchen.cookbook.sft is None:
        return {}
    recipe = kitchen.cookbook.sft_recipe(kitchen.directory)
    out = kitchen.directory / "sft"
    train_sft(recipe, out, kitchen.progress, replace=True)
    return {
        stage.name: directory_fingerprint(out / stage.name / "model") for stage in recipe.stages
    }


def pool_stage(kitchen: Kitchen) -> Digests:
    """The pool of the fine-tuned model, which all methods share."""
    if (rl := kitchen.cookbook.rl) is None:
        return {}
    recipes = _recipes(kitchen, rl)
    if not any(recipe.needs_pool for recipe in recipes):
        return {}
    torch.set_num_threads(THREADS)
    with stage_runner(_rl(kitchen), kitchen.progress, jobs=1) as run_stages:
        run_stages([QuickstartStage("presample", recipes[0])])
    manifest = read_json(_rl(kitchen) / "pool" / "manifest.json")  # it also names directories
    return {"pool": digest(manifest["files"])}


def evaluate_stage_of_models(kitchen: Kitchen) -> Digests:
    """Pass@k of the base model and of every stage of fine-tuning."""
    if (rl := kitchen.cookbook.rl) is None:
        return {}
    torch.set_num_threads(THREADS)
    _begin_rl(kitchen, rl)
    made = {}
    for name, model in models_before_rl(kitchen).items():
        recipe = _recipes(kitchen, rl, model=model)[0]
        out = make_directory(_rl(kitchen)) / name
        with open_plan(recipe, out) as plan:
            evaluate_stage(plan, out, kitchen.progress, model=plan.initial)
        made[name] = _measured(out)
    return made


def rl_stage(kitchen: Kitchen) -> Digests:
    """Every method from the same model, pool and budget, and its evaluation."""
    if (rl := kitchen.cookbook.rl) is None:
        return {}
    recipes = _recipes(kitchen, rl)
    with stage_runner(_rl(kitchen), kitchen.progress, jobs=kitchen.workers) as run_stages:
        run_stages(method_stages(recipes))
    made = {}
    for recipe in recipes:
        run = _rl(kitchen) / recipe.name
        if (newest := RunDirectory(run).result(recipe.evaluate)) is not None:
            made[f"{recipe.name} weights"] = directory_fingerprint(newest)
        made[recipe.name] = _measured(run)
    return made


def models_before_rl(kitchen: Kitchen) -> dict[str, Path]:
    """The models by the names of their evaluations, in the order they were made."""
    stages = [stage["name"] for stage in (kitchen.cookbook.sft or {}).get("stages", [])]
    models = {"pretrained": kitchen.directory / "base" / "model"}
    models |= {name: kitchen.directory / "sft" / name / "model" for name in stages[:-1]}
    return models | {BASE_POLICY: kitchen.directory / "sft" / stages[-1] / "model"}


def evaluations(kitchen: Kitchen) -> dict[str, dict[str, Any]]:
    """``evaluation.json`` of every model, by the name that a reader knows it by."""
    rl = kitchen.cookbook.rl
    if rl is None:
        return {}
    last = (kitchen.cookbook.sft or {})["stages"][-1]["name"]
    shown = {"pretrained": "base", BASE_POLICY: last}
    names = [*models_before_rl(kitchen), *(run_name(method) for method in rl.methods)]
    places = {name: EvaluationDirectory(_rl(kitchen) / name) for name in names}
    return {shown.get(name, name): read_evaluation(at.evaluation) for name, at in places.items()}


def check_methods(rl: RLSettings) -> None:
    """Find an unknown method before anything runs.

    Raises:
        SettingsError: one is unknown, or named twice.
    """
    if len(set(rl.methods)) < len(rl.methods):
        raise SettingsError(f"name each method only once, got {', '.join(rl.methods)}")
    for label in rl.methods:
        parse_contender(label)


def _recipes(kitchen: Kitchen, rl: RLSettings, *, model: Path | None = None) -> list[Recipe]:
    """The recipe of every method; ``model`` in place of the fine-tuned one."""
    world = sql_settings(kitchen.world())
    sets = {name: world["data"]["sets"][name] for name in SETS}
    tables = {
        **world,
        "data": {**world["data"], "sets": sets},
        "sampling": {"max_tokens": rl.max_tokens},
    }
    size = Size(
        steps=rl.steps,
        problems_per_step=rl.problems_per_step,
        samples=rl.samples,
        checkpoint_every=rl.checkpoint_every,
    )
    return [
        quickstart_recipe(
            parse_contender(label),
            tables,
            base_model=model or list(models_before_rl(kitchen).values())[-1],
            pool=_rl(kitchen) / "pool",
            seed=kitchen.cookbook.seed_of_models,
            size=size,
            settings=rl.settings,
        )
        for label in rl.methods
    ]


def _begin_rl(kitchen: Kitchen, rl: RLSettings) -> None:
    """Remove runs, pool and evaluations of other models or settings, which a run would refuse."""
    made_from = {
        "models": {k: directory_fingerprint(v) for k, v in models_before_rl(kitchen).items()},
        "settings": rl.model_dump(mode="json"),
        "seed": kitchen.cookbook.seed_of_models,
        "world": kitchen.world().fingerprint,
    }
    marker = _rl(kitchen) / "made_from.json"
    if not marker.is_file() or read_json(marker) != made_from:
        shutil.rmtree(_rl(kitchen), ignore_errors=True)
        make_directory(_rl(kitchen))
        write_json(marker, made_from)


def _rl(kitchen: Kitchen) -> Path:
    return kitchen.directory / "rl"


def _measured(directory: Path) -> str:
    """A digest of what was measured; the evaluation also names the model's directory."""
    return digest(read_evaluation(EvaluationDirectory(directory).evaluation)["sets"])
