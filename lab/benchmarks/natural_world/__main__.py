r"""The natural world: Spider's questions, and a model that writes their queries in several forms.

    python -m lab.benchmarks.natural_world --out DIR [--seed 0] [--steps 1500] \
        [--methods grpo,dph_f,dph_broad] [--write lab/benchmarks/README.md]

Spider is looked for in ``$DPH_DATA/spider``, or ../shared/data/spider beside the repository. DIR
keeps the checked forms, the world, the base model and the runs; what is there is not made again,
so that several seeds can share ``DIR/forms``. With --methods each is trained by RL on the trained
databases; the base model is evaluated in any case. With --write the part of that file between the
markers of this benchmark is replaced by what DIR holds.
"""

import argparse
from pathlib import Path

import torch

from dph.cli.display.output import open_progress, quiet_libraries
from dph.recipe import Recipe, merged
from dph.runs.progress import ProgressDisplay
from lab.benchmarks.natural_world.base_model import STEPS, shape_of, train_base_model
from lab.benchmarks.natural_world.report import report, write_between
from lab.benchmarks.natural_world.world import World, build_world, natural_settings
from lab.quickstart.recipes import (
    THREADS,
    Size,
    parse_contender,
    quickstart_recipe,
    unlabelled_tables,
)
from lab.quickstart.stages import QuickstartStage, method_stages, stage_runner
from lab.worlds.world import UNLABELLED


def main() -> None:
    """Make what is missing, print the tables, and write them where asked."""
    arguments = _arguments()
    quiet_libraries()
    torch.set_num_threads(THREADS)
    progress = open_progress()
    directory = arguments.out / str(arguments.seed)
    progress.say("checking forms (once for all seeds) and drawing the world")
    world = build_world(directory / "world", arguments.out / "forms", seed=arguments.seed)
    base_model = directory / "base_model"
    with progress.task("base model", arguments.steps, "steps") as advance:
        train_base_model(
            world,
            base_model,
            seed=arguments.seed,
            shape=shape_of(arguments.width, arguments.layers),
            steps=arguments.steps,
            on_progress=lambda steps: advance(steps, ""),
        )
    methods = [name for name in arguments.methods.split(",") if name]
    _run(world, directory, methods, arguments, progress)
    text = report(arguments.out)
    print(text)
    if arguments.write:
        write_between(arguments.write, text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="of the base model's training")
    parser.add_argument("--width", type=int, default=192, help="of the base model")
    parser.add_argument("--layers", type=int, default=4, help="of the base model")
    parser.add_argument("--methods", default="", help="trained by RL after the base, by name")
    parser.add_argument("--rl-steps", type=int, default=40)
    parser.add_argument("--samples", type=int, default=16, help="answers a question in evaluation")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    return parser.parse_args()


def _run(
    world: World,
    directory: Path,
    methods: list[str],
    arguments: argparse.Namespace,
    progress: ProgressDisplay,
) -> None:
    """The base model's evaluation, then every method; what is done is kept."""
    size = Size(steps=arguments.rl_steps, samples=arguments.samples)
    recipes = [_recipe(world, directory, label, size) for label in methods or ["grpo"]]
    stages = [QuickstartStage("evaluate base", recipes[0])]
    if methods:
        stages += [QuickstartStage("presample", recipes[0]), *method_stages(recipes)]
    with stage_runner(directory, progress, jobs=1) as run:
        run(stages)


def _recipe(world: World, directory: Path, label: str, size: Size) -> Recipe:
    contender = parse_contender(label)
    own = unlabelled_tables(contender.method, world.problems_path(UNLABELLED), directory / "stores")
    return quickstart_recipe(
        contender,
        merged(natural_settings(world), own),
        base_model=directory / "base_model",
        pool=directory / "pool",
        seed=world.seed,
        size=size,
    )


if __name__ == "__main__":
    main()
