"""Two stages of fine-tuning against one with the same rows mixed, and against the second alone.

    make .cookbook/sdists
    python -m benchmarks.finetuning --out DIR --seeds 100,101
    python -m benchmarks.finetuning --out DIR --seeds 10,11,12,13,14
    python -m benchmarks.finetuning --write docs/cookbook.md

The first two train every arm of rule.toml from the base model of each seed, and add a row to ROWS
for each that is not there; development seeds try every rate, report seeds the rate that those
chose. A killed command goes on from its checkpoints. The last writes the tables of the rows.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from benchmarks.finetuning.measuring import measure
from benchmarks.marked_blocks import write_block
from dph._base.files import sha256
from dph._base.provenance import code_commit, versions
from dph.cli.display.output import open_progress, quiet_libraries
from dph.lab.base.recipes import SFTRecipe
from dph.lab.base.sft import train_sft
from dph.model.policies import directory_fingerprint
from dph.recipe.section import checked
from dph.results.over_seeds import mean_over_seeds, paired_t, t_quantile

HERE = Path(__file__).parent
RULE, DATA, ROWS = HERE / "rule.toml", HERE / "data.toml", HERE / "rows.jsonl"
Row = Mapping[str, Any]


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


def chosen_rate(rule: Mapping[str, Any], arm: str, rows: Sequence[Row]) -> float:
    """The better rate by the development seeds, of equals the smaller."""
    means = {}
    for rate in sorted(rule["rates"]):
        found = {r["seed"]: r for r in rows if (r["arm"], r["rate"]) == (arm, rate)}
        if missing := [seed for seed in rule["development"] if seed not in found]:
            raise SystemExit(f"{arm} has no row of development seed {missing[0]} at {rate:g}")
        means[rate] = fmean(found[seed][rule["metric"]] for seed in rule["development"])
    return max(means, key=means.__getitem__)


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


def read_rows() -> list[Row]:
    """The rows until now."""
    text = ROWS.read_text(encoding="utf-8") if ROWS.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def tables(rule: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Scores of the arms at their rates, and the comparisons of the rule."""
    metrics = (rule["metric"], rule["also"])
    scores = {
        (arm["name"], metric): _over(rule, rows, arm["name"], metric)
        for arm in rule["arms"]
        for metric in metrics
    }
    lines = [_line("arm", "rate", *metrics), _line("---", *["---:"] * 3)]
    for arm in rule["arms"]:
        rate = chosen_rate(rule, arm["name"], rows)
        cells = [str(mean_over_seeds(scores[arm["name"], metric])) for metric in metrics]
        lines.append(_line(arm["name"], f"{rate:g}", *cells))
    lines += ["", _line("comparison", *metrics, "p", "found with power 80%")]
    lines.append(_line("---", *["---:"] * 4))
    lines += _comparisons(rule, rows, scores, metrics)
    return "\n".join(lines) + "\n"


def _comparisons(
    rule: Mapping[str, Any],
    rows: Sequence[Row],
    scores: Mapping[tuple[str, str], Sequence[float]],
    metrics: Sequence[str],
) -> Iterator[str]:
    for pair in rule["compare"]:
        cells = []
        for metric in metrics:
            pairs = zip(scores[pair["a"], metric], scores[pair["b"], metric], strict=True)
            found = mean_over_seeds([a - b for a, b in pairs])
            cells.append(f"{found.mean:+.1f} ± {found.half or 0.0:.1f}")
        tested = paired_t(*(scores[pair[side], metrics[0]] for side in "ab"))
        named = f"{pair['a']} minus {pair['b']}"
        smallest = f"from {_smallest(rule, rows, pair):.1f}"
        yield _line(named, *cells, f"{tested.p_value:.3f}", smallest)


def _over(rule: Mapping[str, Any], rows: Sequence[Row], arm: str, metric: str) -> list[float]:
    rate = chosen_rate(rule, arm, rows)
    found = {row["seed"]: row for row in rows if (row["arm"], row["rate"]) == (arm, rate)}
    return [found[seed][metric] for seed in rule["report"] if seed in found]


def _smallest(rule: Mapping[str, Any], rows: Sequence[Row], pair: Mapping[str, str]) -> float:
    """The smallest difference that is found with 80%, by the spread over the development seeds.

    Equation: (t_0.975 + t_0.8) s / sqrt(n), as in ``dph.lab.ablation.outcome``.
    """
    sides = []
    for side in "ab":
        rate = chosen_rate(rule, pair[side], rows)
        of = {row["seed"]: row for row in rows if (row["arm"], row["rate"]) == (pair[side], rate)}
        sides.append([of[seed][rule["metric"]] for seed in rule["development"]])
    spread = stdev(a - b for a, b in zip(*sides, strict=True))
    n = len(rule["report"])
    return float((t_quantile(0.975, n - 1) + t_quantile(0.8, n - 1)) * spread / n**0.5)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
