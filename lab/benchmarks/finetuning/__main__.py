"""Two stages of fine-tuning against one with the same rows mixed, and against the second alone.

    python -m lab.benchmarks.finetuning --out DIR --seeds 100,101
    python -m lab.benchmarks.finetuning --out DIR --seeds 10,11,12,13,14
    python -m lab.benchmarks.finetuning --write docs/cookbook.md

The first two train every arm of rule.toml from the base model of each seed, and add a row to ROWS
for each that is not there; development seeds try every rate, report seeds the rate that those
chose. A killed command goes on from its checkpoints. The last writes the tables of the rows. The
source distributions are those that `make cookbook` obtains.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from dph._base.files import sha256
from dph._base.provenance import code_commit, versions
from dph.cli.display.output import open_progress, quiet_libraries
from dph.model.policies import directory_fingerprint
from dph.recipe.section import checked
from dph_corpus.base.recipes import SFTRecipe
from dph_corpus.base.sft import train_sft
from lab.benchmarks.finetuning.measuring import measure
from lab.benchmarks.finetuning.outcome import ROWS, Row, chosen_rate, read_rows, tables
from lab.benchmarks.marked_blocks import write_block

HERE = Path(__file__).parent
RULE, DATA = HERE / "rule.toml", HERE / "data.toml"


def main() -> None:
    """Train and measure the arms, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="where models are trained")
    parser.add_argument("--seeds", default="", help="of the models, such as 10,11")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    arguments = parser.parse_args()
    quiet_libraries()
    rule = tomllib.loads(RULE.read_text(encoding="utf-8"))
    for seed in map(int, filter(None, arguments.seeds.split(","))):
        run_seed(rule, seed, arguments.out)
    if arguments.write:
        write_block(arguments.write, "finetuning", tables(rule, read_rows()))


def run_seed(rule: Mapping[str, Any], seed: int, out: Path) -> None:
    """The rows of one seed that are not there yet."""
    known = {(row["arm"], row["rate"]) for row in read_rows() if row["seed"] == seed}
    wanted = [(arm, rate) for arm in rule["arms"] for rate in rates_of(rule, arm["name"], seed)]
    if all((arm["name"], rate) in known for arm, rate in wanted):
        return
    # The data are made once; the base model of another seed is replaced.
    command = [sys.executable, "-m", "dph", "corpus", "run", str(DATA), "--out", str(out)]
    command += ["--set", f"model_seed={seed}", "--workers", "1", "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for arm, rate in wanted:
        if (arm["name"], rate) not in known:
            row = run_arm(rule, arm, rate, seed, out)
            with ROWS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def rates_of(rule: Mapping[str, Any], arm: str, seed: int) -> Sequence[float]:
    """The rates that a seed tries.

    Raises:
        SystemExit: a report seed, and the development seeds are not whole.
    """
    if seed in rule["development"]:
        return list(rule["rates"])
    if seed not in rule["report"]:
        raise SystemExit(f"seed {seed} is neither a development nor a report seed of {RULE}")
    return [chosen_rate(rule, arm, read_rows())]


def run_arm(rule: Mapping[str, Any], arm: Row, rate: float, seed: int, out: Path) -> Row:
    """Train an arm and measure it."""
    stages = [
        {
            "name": f"stage-{number}",
            "learning_rate": rate,
            **rule["stage"],
            **stage,
            "rows": [str(out / "instruct" / name / "rows.jsonl") for name in stage["rows"]],
        }
        for number, stage in enumerate(arm["stages"], start=1)
    ]
    base = out / "base" / "model"
    table = {
        "kind": "sft",
        "name": "arm",
        "seed": seed,
        "model": str(base),
        "stages": stages,
        "device": {"device": "cpu", "threads": 1},
    }
    recipe = checked(SFTRecipe, table, beside=out, place=str(RULE))
    directory = out / "arms" / f"{arm['name'].replace(' ', '-')}-{rate:g}"
    progress = open_progress()
    model = train_sft(recipe, directory, progress, replace=True)
    data = tomllib.loads(DATA.read_text(encoding="utf-8"))
    scores = measure(out, model, progress, data=data, seed=seed, samples=rule["samples"])
    return {
        "seed": seed,
        "arm": arm["name"],
        "rate": rate,
        **scores,
        "base": directory_fingerprint(base),
        "rule": sha256(RULE),
        "data": sha256(DATA),
        "commit": code_commit(),
        "versions": f"{versions(torch.backends.cpu.get_cpu_capability())}, trl {version('trl')}",
    }


if __name__ == "__main__":
    main()
