r"""What evaluation during training costs, and that the weights do not notice it.

    python benchmarks/during_training.py RECIPE --steps 6 --every 3 --set model.threads=1

Trains the recipe three times: without evaluations, with evaluations that compare nothing with the
initial policy, and as the recipe says. Printed for each: seconds of CPU time of this process and of
the graders, wall-clock seconds, of these drawing, comparing and waiting for verdicts, and a hash of
the last weights. The budget is the drawing and 5% of a run without.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from dph.files import sha256
from dph.runs.progress import Silent
from dph.runs.training_stage import train_stage
from dph.runs.workbench import open_workbench
from dph.settings import load_recipe
from dph.training.tracking import read_metrics


class Cost(NamedTuple):
    """Seconds of one run, and its weights."""

    cpu: float
    graders: float
    wall: float
    drawing: float
    comparing: float
    waiting: float
    weights: str


def main() -> None:
    """Print a line for each of the three runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--set", action="append", dest="overrides", default=[])
    arguments = parser.parse_args()
    last = [f"train.steps={arguments.steps}", f"train.checkpoint_every={arguments.steps}"]
    every = f"evaluate.every={arguments.every}"
    variants = {
        "without": ["evaluate.every=0"],
        "drawn and graded": [every, "evaluate.during.compared=0"],
        "compared too": [every],
    }
    print("| evaluation | CPU | graders | wall | drawing | comparing | waiting | weights |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    for name, settings in variants.items():
        cost = _cost(arguments.recipe, [*arguments.overrides, *last, *settings])
        numbers = " | ".join(f"{value:.2f}" for value in cost[:-1])
        print(f"| {name} | {numbers} | {cost.weights} |", flush=True)


def _cost(path: Path, overrides: list[str]) -> Cost:
    recipe = load_recipe(path, overrides=overrides)
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        before, started = _cpu(), time.perf_counter()
        with open_workbench(recipe) as bench:
            trained = train_stage(bench, run, Silent())
        wall = time.perf_counter() - started
        own, graders = (now - then for now, then in zip(_cpu(), before, strict=True))
        lines = read_metrics(run / "metrics.jsonl")
        parts = [
            sum(line.get(f"eval/seconds_{part}", 0.0) for line in lines)
            for part in ("sampling", "comparing", "waiting")
        ]
        weights = sha256(trained.checkpoint / "model.safetensors")[:12]
    return Cost(own, graders, wall, *parts, weights)


def _cpu() -> tuple[float, float]:
    """CPU seconds of this process, and of its children that have ended."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
