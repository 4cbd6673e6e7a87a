r"""Which tasks of the real world can decide anything, by the base model and GRPO alone.

    python -m lab.benchmarks.real.gates [--tasks real,real-spider] [--seeds 700,701,702] \
        [--steps 40,120,300] [--problems 100] [--samples 16] [--temperature 1]
        [--write docs/real-world.md]

Seeds are development seeds: no study reports on them. A row is a model's scores on one task and
seed: the base model's first, then GRPO's after each number of ``--steps`` (one run that continues;
``--steps 0`` runs none). Rows are added to lab/benchmarks/real/results/gates.jsonl as they are
measured, and those that are there are not measured again; a run that was killed continues from its
checkpoint in ``--work``. ``--temperature`` is that of the test's answers, never of training.
``--write`` puts the tables of all rows into a page; with ``--no-run`` nothing else is done.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from dph._base.provenance import code_commit, versions
from dph.cli.display.output import quiet_libraries
from dph.model.policies import directory_fingerprint
from dph.recipe import Recipe
from dph.runs.evaluation_stage import evaluate_stage
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.training_stage import train_stage
from lab.benchmarks.marked_blocks import write_block
from lab.benchmarks.real.gates_table import at_temperature, gates_table, temperature_table
from lab.quickstart.recipes import (
    THREADS,
    Size,
    parse_contender,
    quickstart_recipe,
    world_tables,
)
from lab.worlds import WorldKind, world_kind
from lab.worlds.real.kind import REAL

ROWS = Path(__file__).parent / "results" / "gates.jsonl"
SCHEMA = 1
TRAIN = 300


def main() -> None:
    """Measure what is missing, print the table, and write it where asked."""
    arguments = _arguments()
    quiet_libraries()
    torch.set_num_threads(THREADS)
    if not arguments.no_run:
        for seed in map(int, arguments.seeds.split(",")):
            for task in arguments.tasks.split(","):
                steps = [int(n) for n in arguments.steps.split(",") if int(n)]
                Gate(task, seed, arguments).run(steps)
    rows = read_gate_rows(arguments.rows)
    for name, table in (("gates", gates_table(rows)), ("temperatures", temperature_table(rows))):
        print(table)
        if table and arguments.write:
            write_block(arguments.write, name, table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", default=",".join(REAL))
    parser.add_argument("--seeds", default="700,701,702")
    parser.add_argument("--steps", default="40,120,300", help="steps of GRPO, rising; 0: none")
    parser.add_argument("--problems", type=int, default=100, help="test problems a set")
    parser.add_argument("--samples", type=int, default=16, help="answers a test problem")
    parser.add_argument("--temperature", type=float, default=1.0, help="of a test's answers")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--work", type=Path, default=Path("build/real-gates"))
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
    parser.add_argument("--no-run", action="store_true", help="only show the rows that exist")
    return parser.parse_args()


def read_gate_rows(path: Path) -> list[dict[str, Any]]:
    """All rows; a last line that a kill cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


class Gate:
    """The measurements of one task and seed."""

    def __init__(self, task: str, seed: int, arguments: argparse.Namespace) -> None:
        self._task, self._seed, self._rows = task, seed, arguments.rows
        self._sizes = {"problems": arguments.problems, "samples": arguments.samples}
        self._temperature = arguments.temperature
        name = f"{task}-s{seed}-p{arguments.problems}-n{arguments.samples}"
        self._directory = arguments.work / name

    def run(self, steps: Sequence[int]) -> None:
        """The base model, then GRPO after each number of steps, as far as rows are missing."""
        kind = world_kind(self._task)
        rate = kind.optimizer["learning_rate"]
        missing = [n for n in (0, *sorted(steps)) if not self._is_measured(n, rate)]
        for number in missing:
            self._measure(kind, number)

    def _is_measured(self, steps: int, rate: float) -> bool:
        key = {"task": self._task, "seed": self._seed, "steps": steps, **self._sizes}
        key["learning_rate"] = rate if steps else None
        rows = at_temperature(read_gate_rows(self._rows), self._temperature)
        return any(key.items() <= row.items() for row in rows)

    def _measure(self, kind: WorldKind, steps: int) -> None:
        recipe = self._recipe(kind, max(steps, 1))
        started, place = time.process_time(), self._evaluation(steps)
        with open_plan(recipe, self._directory / f"grpo_{recipe.train.learning_rate:g}") as plan:
            model, base = plan.initial, None
            if steps:
                trained = train_stage(plan, Silent())
                if trained.stopped:
                    raise KeyboardInterrupt
                model, base = trained.checkpoint, self._evaluation(0)
            trained_for = time.process_time() - started
            document = evaluate_stage(plan, place, Silent(), model=model, base=base)
        row = {
            "schema": SCHEMA,
            "task": self._task,
            "seed": self._seed,
            "steps": steps,
            **self._sizes,
            "learning_rate": recipe.train.learning_rate if steps else None,
            "temperature": self._temperature,
            "sets": {name: dict(_scores(found)) for name, found in document["sets"].items()},
            "cpu_seconds": {
                "training": round(trained_for, 1),
                "all": round(time.process_time() - started, 1),
            },
            "base_sha256": directory_fingerprint(plan.initial),
            "commit": code_commit(),
            "versions": versions(torch.backends.cpu.get_cpu_capability()),
        }
        self._rows.parent.mkdir(parents=True, exist_ok=True)
        _end_line(self._rows)
        with self._rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def _evaluation(self, steps: int) -> Path:
        cooler = "" if self._temperature == 1 else f"_at_{self._temperature:g}"
        return self._directory / f"after_{steps}{cooler}"

    def _recipe(self, kind: WorldKind, steps: int) -> Recipe:
        problems = self._sizes["problems"]
        sizes = kind.sizes(train=TRAIN, in_domain=problems, cross_domain=problems, unlabelled=1)
        world = kind.build(self._directory / "world", seed=self._seed, sizes=sizes)
        base_model = self._directory / "base_model"
        kind.train_base_model(world, base_model, seed=self._seed, steps=kind.base_steps)
        samples = self._sizes["samples"]
        return quickstart_recipe(
            parse_contender("grpo"),
            world_tables(kind, world, "grpo", self._directory / "stores"),
            base_model=base_model,
            pool=self._directory / "pool",
            seed=self._seed,
            size=Size(**{**kind.budget, "steps": steps, "samples": samples}),
            settings={
                "evaluate": {
                    "k": [k for k in (1, 4, 16, 64) if k <= samples],
                    "temperature": self._temperature,
                }
            },
        )


def _scores(summary: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for metric in ("greedy", "mean", "cut_off"):
        yield metric, summary[metric]
    yield from ((f"pass@{k}", value) for k, value in summary["pass_at_k"].items())


def _end_line(path: Path) -> None:
    """Cut off a last line that a kill left without its end."""
    if path.exists() and (text := path.read_text(encoding="utf-8")) and not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


if __name__ == "__main__":
    main()
