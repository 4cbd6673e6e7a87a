"""The quickstart world inside TRL: DPHTrainer beside plain GRPOTrainer, same base model and seed.

    python lab/benchmarks/trl_quickstart.py --out trl_quickstart --seed 0

Needs dph-rl[trl]. Prints one JSON line for the base model and one a trainer: effective styles,
mean@1 and pass@8 on the in-domain problems, and seconds of training. Rollouts, batch, optimizer
and strengths are those of ``dph quickstart``: 32 problems x 8 samples a rollout, two optimizer
steps for each rollout, AdamW at 2e-4. ``--steps`` counts optimizer steps, as TRL does; the
quickstart's 40 rollouts are 80 of them. World, base model and pool are kept in ``--out``.
"""

import argparse
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import torch
from trl import GRPOConfig, GRPOTrainer

from dph.engines.trl import DPHConfig, DPHTrainer, problems_dataset, reward_function
from dph.model.policies import load_policy
from dph.model.prompts import stop_token_ids
from dph.recipe import Recipe
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import RunPlan, open_plan
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from lab.quickstart.recipes import (
    THREADS,
    Size,
    parse_contender,
    quickstart_recipe,
)
from lab.worlds import world_kind

OPTIMIZER_STEPS = 2
"""For each rollout, as in the quickstart."""
SAMPLES = 16
"""Of each in-domain problem, for the evaluation."""


def make_recipe(out: Path, *, seed: int) -> Recipe:
    """Build the world and the base model; the recipe of dph_f, with one evaluation set."""
    kind, size = world_kind("sql"), Size(samples=SAMPLES)
    world = kind.build(out / "world", seed=seed)
    kind.train_base_model(world, out / "base_model", seed=seed, steps=kind.base_steps)
    recipe = quickstart_recipe(
        parse_contender("dph_f", kind.strengths),
        kind.settings(world),
        base_model=out / "base_model",
        pool=out / "pool",
        seed=seed,
        size=size,
    )
    in_domain = {"in_domain": recipe.data.sets["in_domain"]}
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"sets": in_domain})})


def shared_settings(recipe: Recipe, out: Path, *, steps: int) -> dict[str, Any]:
    """What both trainers have in common."""
    samples = recipe.train.samples_per_problem
    rollout = recipe.train.problems_per_step * samples
    return {
        "output_dir": str(out),
        "use_cpu": True,
        "bf16": False,
        "activation_checkpointing": False,
        "seed": recipe.seed,
        "num_generations": samples,
        "per_device_train_batch_size": rollout // OPTIMIZER_STEPS,
        "steps_per_generation": OPTIMIZER_STEPS,
        "max_steps": steps,
        "max_completion_length": recipe.sampling.max_tokens,
        "learning_rate": recipe.train.learning_rate,
        "lr_scheduler_type": "constant",
        "adam_beta2": recipe.train.betas[1],
        "adam_epsilon": recipe.train.eps,
        "max_grad_norm": recipe.train.max_grad_norm,
        "epsilon": recipe.objective.surrogate.parameters["clip_low"],
        "save_strategy": "no",
        "logging_steps": OPTIMIZER_STEPS * 10,
        "report_to": "none",
        "disable_tqdm": True,
    }


def train(name: str, plan: RunPlan, out: Path, *, steps: int) -> float:
    """Train one of the two and save it to ``out``; returns the seconds of training."""
    recipe = plan.recipe
    settings = shared_settings(recipe, out, steps=steps)
    model = load_policy(Path(recipe.model.path), plan.recipe.model, initial=plan.initial)
    if name == "dph":
        pool = Path(str(recipe.presample.pool))
        args: Any = DPHConfig(
            **settings,
            objective=recipe.objective,
            pool=str(pool),
            rehearsal_per_step=recipe.train.rehearsal_per_step // OPTIMIZER_STEPS,
        )
        trainer_class, problems = DPHTrainer, load_pool(pool).exploration
    else:
        args = GRPOConfig(**settings)
        trainer_class, problems = GRPOTrainer, plan.problems
    trainer = trainer_class(
        model=model,
        reward_funcs=reward_function(
            plan.verifier, stop_token_ids=stop_token_ids(plan.prompts.tokenizer, model)
        ),
        args=args,
        train_dataset=problems_dataset(problems),
        processing_class=plan.prompts.tokenizer,
    )
    started = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - started
    trainer.save_model(str(out))
    return seconds


def report(name: str, plan: RunPlan, directory: Path, model: Path, **more: Any) -> None:
    """Evaluate ``model`` in domain and print its line."""
    scores = evaluate_stage(plan, directory, Silent(), model=model)["sets"]["in_domain"]
    line = {
        "trainer": name,
        "effective_styles": scores["effective_styles"],
        "mean": scores["mean"],
        "pass@8": scores["pass_at_k"]["8"],
        **more,
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    """One model after another."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--models", default="base,dph,grpo", help="which, in this order")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    recipe = make_recipe(options.out, seed=options.seed)
    with open_plan(recipe, options.out) as plan:
        presample_stage(plan, Silent())
        for name in filter(None, options.models.split(",")):
            out = options.out / name
            if name == "base":
                report(name, plan, out, options.out / "base_model")
                continue
            seconds = train(name, plan, out, steps=options.steps)
            report(name, plan, out, out, seconds=round(seconds, 1))


if __name__ == "__main__":
    main()
