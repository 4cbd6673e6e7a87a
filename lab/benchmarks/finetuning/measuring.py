"""Scores of a fine-tuned model on the test questions of the world in a cookbook's directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from dph._base.files import make_directory
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.progress import ProgressDisplay
from lab.quickstart.recipes import THREADS, Size, parse_contender, quickstart_recipe
from lab.worlds.sql.kind import SQLWorldSizes, sql_settings
from lab.worlds.sql.world import build_world

SET = "in_domain"


def measure(
    directory: Path,
    model: Path,
    progress: ProgressDisplay,
    *,
    data: Mapping[str, Any],
    seed: int,
    samples: int,
) -> dict[str, float]:
    """Greedy and Pass@k of ``model``, in per cent; the cookbook ``data`` ran in ``directory``."""
    torch.set_num_threads(THREADS)
    sizes = SQLWorldSizes(**data["world"]["sizes"])
    world = sql_settings(build_world(directory / "world", seed=data["seed"], sizes=sizes))
    recipe = quickstart_recipe(
        parse_contender("grpo"),
        {
            **world,
            "data": {**world["data"], "sets": {SET: world["data"]["sets"][SET]}},
            "sampling": {"max_tokens": 64},
        },
        base_model=model,
        pool=directory / "pool",
        seed=seed,
        size=Size(samples=samples),
    )
    out = make_directory(model.parent / "evaluation")
    with open_plan(recipe, out) as plan:
        scores = evaluate_stage(plan, out, progress, model=plan.initial)["sets"][SET]
    at = {f"pass@{k}": round(100 * value, 4) for k, value in scores["pass_at_k"].items()}
    return {"greedy": round(100 * scores["greedy"], 4), **at}
