"""Choose every quickstart method's strength by one rule, on seeds that are not reported.

    python benchmarks/quickstart_sweep.py --out DIR [--seeds 100,101,102] [--jobs 2]

Each contender (a method at a strength, see dph.quickstart.recipes) is trained on every seed. Its
score is the mean, over seeds and over in_domain and cross_domain, of greedy + pass@16: right at
the first try and right within many tries count alike. The strength with the best score is
chosen. Results go to DIR/sweep.jsonl, a line a contender and seed; what is there already is not
run again.
"""

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

from dph.quickstart.run import quickstart
from dph.runs.progress import Silent

GRID = {
    "grpo": [None],
    "dapo": [None],
    "rkl": [0.01, 0.03, 0.1, 0.3, 1.0],
    "alpha": [0.1, 0.3, 1.0, 3.0],
    "dph_f": [0.1, 0.3, 1.0, 3.0],
    "dph_js": [0.3, 1.0, 3.0, 10.0],
    "dph_js_definition": [0.3, 1.0, 3.0],
}
SETS = ("in_domain", "cross_domain")


def labels() -> list[str]:
    """Every contender of the grid, as the quickstart writes it."""
    return [
        method if strength is None else f"{method}@{strength:g}"
        for method, strengths in GRID.items()
        for strength in strengths
    ]


def main() -> None:
    """Run what is missing, then print the table and the choice."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="100,101,102")
    parser.add_argument("--jobs", type=int, default=2, help="seeds run side by side")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)  # the child's seed
    parser.add_argument("--contenders", default=",".join(labels()))
    arguments = parser.parse_args()
    contenders = arguments.contenders.split(",")
    if arguments.only is not None:
        quickstart(
            arguments.out / f"seed_{arguments.only}",
            methods=contenders,
            seed=arguments.only,
            progress=Silent(),
        )
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda seed: _in_a_process(arguments, seed), seeds))
    rows = _rows(arguments.out, seeds, contenders)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (arguments.out / "sweep.jsonl").write_text(lines, encoding="utf-8")
    _print(rows)


def _in_a_process(arguments: argparse.Namespace, seed: int) -> None:
    command = [sys.executable, __file__, "--out", str(arguments.out), "--only", str(seed)]
    subprocess.run([*command, "--contenders", arguments.contenders], check=True)


def _rows(out: Path, seeds: list[int], contenders: list[str]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for seed in seeds:
        summary = json.loads((out / f"seed_{seed}" / "summary.json").read_text())
        for contender in contenders:
            sets = summary["methods"][contender]["sets"]
            row: dict[str, object] = {"contender": contender, "seed": seed}
            for name in SETS:
                row[f"{name}.greedy"] = sets[name]["greedy"]
                row[f"{name}.mean"] = sets[name]["mean"]
                row[f"{name}.pass_at_16"] = sets[name]["pass_at_k"]["16"]
                row[f"{name}.effective_styles"] = sets[name]["effective_styles"]
            row["score"] = fmean(
                sets[name]["greedy"] + sets[name]["pass_at_k"]["16"] for name in SETS
            )
            rows.append(row)
    return rows


def _print(rows: list[dict[str, object]]) -> None:
    by_contender: dict[str, list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        by_contender[str(row["contender"])].append(row)
    means = {
        contender: {
            key: fmean(float(str(row[key])) for row in found)
            for key in found[0]
            if key not in ("contender", "seed")
        }
        for contender, found in by_contender.items()
    }
    names = list(next(iter(means.values())))
    print("contender".ljust(24), *(name.replace("_domain", "").rjust(22) for name in names))
    for contender, values in means.items():
        print(contender.ljust(24), *(f"{values[name]:22.3f}" for name in names))
    best: dict[str, str] = {}
    for contender, values in means.items():
        method = contender.partition("@")[0]
        if method not in best or values["score"] > means[best[method]]["score"]:
            best[method] = contender
    print("chosen:", ", ".join(best.values()))


if __name__ == "__main__":
    main()
