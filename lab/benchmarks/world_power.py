r"""What a world can decide: how far GRPO is from its base model, against how much seeds differ.

    python lab/benchmarks/world_power.py --out DIR --task sql --world 2 --seeds 300,301,302,303 \
        [--learning-rate 5e-4 --eps 1e-5 --steps 40] [--jobs 2] [--write docs/quickstart-world.md]

Each seed is a world of its own with a base model of its own. Only the base and GRPO are looked at,
so that a world is judged before any method that it is to judge. Printed for greedy, mean@1 and
Pass@16 on each set of the task: the mean of GRPO - base over seeds in points, its standard
deviation, and the standard error that 4 and 10 seeds would have. DIR/<seed>/ keeps the runs, and
DIR/power.jsonl a line a seed; a seed that is there with the same settings is not run again.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from marked_blocks import write_block

from dph._base.files import write_json, write_text
from dph.recipe import merged, recipe_toml, resolve_recipe
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.training_stage import train_stage
from lab.quickstart.recipes import THREADS, Size, parse_contender, quickstart_recipe
from lab.worlds import newest_edition, world_kind

SCORES = ("greedy", "mean", "16")
SHOWN = {"greedy": "greedy", "mean": "mean@1", "16": "pass@16"}


def main() -> None:
    """Run what is missing, print the table, and write it where asked."""
    arguments = _arguments()
    arguments.world = arguments.world or newest_edition(arguments.task)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    if arguments.only is not None:
        run_seed(arguments, arguments.only)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    missing = [seed for seed in seeds if not _done(arguments, seed)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(_in_a_process, missing))
    rows = [_row(arguments.out, seed) for seed in seeds]
    write_text(arguments.out / "power.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    table = describe(rows)
    print(table)
    if arguments.write:
        write_block(arguments.write, "power", table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", default="sql")
    parser.add_argument("--world", type=int, help="edition [default: the newest]")
    parser.add_argument("--seeds", default="300,301,302,303")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--eps", type=float, default=1e-5)
    parser.add_argument("--steps", type=int, default=40, help="training steps of GRPO")
    parser.add_argument("--samples", type=int, default=32, help="answers a question in evaluation")
    parser.add_argument("--jobs", type=int, default=2, help="seeds run side by side")
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)  # the child's seed
    return parser.parse_args()


def _in_a_process(seed: int) -> None:
    command = [sys.executable, *sys.argv, "--only", str(seed)]
    subprocess.run(command, check=True)


def _made_from(arguments: argparse.Namespace) -> dict[str, Any]:
    names = ("task", "world", "learning_rate", "eps", "steps", "samples")
    return {name: getattr(arguments, name) for name in names}


def _row(out: Path, seed: int) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((out / str(seed) / "power.json").read_text(encoding="utf-8"))
    return row


def _done(arguments: argparse.Namespace, seed: int) -> bool:
    """Whether a seed is there."""
    if not (arguments.out / str(seed) / "power.json").exists():
        return False
    found, wanted = _row(arguments.out, seed)["made_from"], _made_from(arguments)
    if found != wanted:
        sys.exit(f"{arguments.out / str(seed)} was run with {found}, not {wanted}")
    return True


def run_seed(arguments: argparse.Namespace, seed: int) -> None:
    """World, base model, its evaluation, GRPO and its evaluation; each kept where it is there."""
    torch.set_num_threads(THREADS)
    directory = arguments.out / str(seed)
    kind = world_kind(arguments.task, arguments.world)
    world = kind.build(directory / "world", seed=seed)
    kind.train_base_model(world, directory / "base_model", seed=seed, steps=kind.base_steps)
    recipe = quickstart_recipe(
        parse_contender("grpo"),
        kind.settings(world),
        base_model=directory / "base_model",
        pool=directory / "pool",
        seed=seed,
        size=Size(steps=arguments.steps, samples=arguments.samples),
    )
    optimizer = {"learning_rate": arguments.learning_rate, "eps": arguments.eps}
    recipe = resolve_recipe(merged(tomllib.loads(recipe_toml(recipe)), {"train": optimizer}))
    with open_plan(recipe, directory / "base") as plan:
        base = evaluate_stage(plan, directory / "base", Silent(), model=directory / "base_model")
    with open_plan(recipe, directory / "grpo") as plan:
        trained = train_stage(plan, Silent())
        if trained.stopped:
            sys.exit(f"seed {seed} was interrupted; start again to go on")
        grpo = evaluate_stage(
            plan, directory / "grpo", Silent(), model=trained.checkpoint, base=directory / "base"
        )
    row = {"made_from": _made_from(arguments), "seed": seed}
    row |= {name: _scores(found["sets"]) for name, found in (("base", base), ("grpo", grpo))}
    write_json(directory / "power.json", row)


def _scores(sets: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        name: {"greedy": s["greedy"], "mean": s["mean"], "16": s["pass_at_k"]["16"]}
        for name, s in sets.items()
    }


def describe(rows: Sequence[dict[str, Any]]) -> str:
    """GRPO - base in points, as markdown."""
    lines = [
        "| | base | GRPO | GRPO - base | SD of seeds | standard error, 4 seeds | 10 seeds |"
        " standard errors at 4 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for part in rows[0]["base"]:
        for score in SCORES:
            base, grpo = ([100 * row[who][part][score] for row in rows] for who in ("base", "grpo"))
            gaps = [after - before for before, after in zip(base, grpo, strict=True)]
            lines.append(f"| {part}: {SHOWN[score]} | {_power(base, grpo, gaps)} |")
    shown = ", ".join(str(row["seed"]) for row in rows)
    return "\n".join([*lines, "", f"Seeds {shown}.", ""])


def _power(base: list[float], grpo: list[float], gaps: list[float]) -> str:
    cells = [f"{fmean(base):.1f}", f"{fmean(grpo):.1f}", f"{fmean(gaps):+.1f}"]
    if len(gaps) < 2:
        return " | ".join([*cells, "", "", "", ""])
    spread = stdev(gaps)
    cells += [f"{spread:.1f}", f"{spread / 4**0.5:.1f}", f"{spread / 10**0.5:.1f}"]
    return " | ".join([*cells, f"{abs(fmean(gaps)) / max(spread / 2, 1e-9):.1f}"])


if __name__ == "__main__":
    main()
