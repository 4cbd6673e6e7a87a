r"""What evaluation during training costs, and that the weights do not notice it.

    python lab/benchmarks/during_training.py RECIPE --steps 10 --every 5 --set model.threads=1

Trains the recipe three times: without evaluations, with evaluations that compare nothing with the
initial policy, and as the recipe says. Printed for each: seconds of CPU time of this process, of
these drawing the answers of evaluations and comparing policies, and of the graders' processes;
wall-clock seconds, of these waiting for verdicts; what this process spent beyond drawing, over a
run without; a hash of the last weights. CPU time, because it does not depend on who else computes.
"""

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from dph._base.files import sha256
from dph.recipe import load_recipe
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.train.evaluations import Evaluations, StepEvaluation
from dph.runs.training_stage import train_stage


class Cost(NamedTuple):
    """Seconds of one run, and its weights."""

    cpu: float
    drawing: float
    comparing: float
    graders: float
    wall: float
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
    print(
        "| evaluation | CPU | drawing | comparing | graders | wall | waiting | beyond | weights |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    without = None
    for name, settings in variants.items():
        cost = _cost(arguments.recipe, [*arguments.overrides, *last, *settings])
        without = without or cost
        numbers = " | ".join(f"{value:.2f}" for value in cost[:-1])
        beyond = (cost.cpu - cost.drawing) / without.cpu - 1
        print(f"| {name} | {numbers} | {beyond:+.1%} | {cost.weights} |", flush=True)


def _cost(path: Path, overrides: list[str]) -> Cost:
    recipe = load_recipe(path, overrides=overrides)
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        before, started = _cpu(), time.perf_counter()
        with open_plan(recipe, run) as plan, _timed() as spent:
            trained = train_stage(plan, Silent())
        wall = time.perf_counter() - started
        own, graders = (now - then for now, then in zip(_cpu(), before, strict=True))
        weights = sha256(trained.checkpoint / "model.safetensors")[:12]
    return Cost(
        cpu=own,
        drawing=spent["drawing"] - spent["comparing"],
        comparing=spent["comparing"],
        graders=graders,
        wall=wall,
        waiting=spent["waiting"],
        weights=weights,
    )


@contextmanager
def _timed() -> Iterator[Counter[str]]:
    """CPU seconds of this thread in evaluations; ``drawing`` includes ``comparing``."""
    spent: Counter[str] = Counter()

    class Timed(Evaluations):
        def _draw(self, *arguments: Any) -> Any:
            started = time.thread_time()
            drawn = super()._draw(*arguments)
            spent["drawing"] += time.thread_time() - started
            return drawn

        def _compared(self, *arguments: Any) -> Any:
            started = time.thread_time()
            compared = super()._compared(*arguments)
            spent["comparing"] += time.thread_time() - started
            return compared

        def finish(self) -> list[StepEvaluation]:
            measured = super().finish()
            for each in measured:
                spent["waiting"] += each.metrics["eval/seconds_waiting"] or 0.0
            return measured

    with patch("dph.runs.training_stage.Evaluations", Timed):
        yield spent


def _cpu() -> tuple[float, float]:
    """CPU seconds of this process, and of its children that have ended."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
