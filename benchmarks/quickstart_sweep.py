"""Choose every quickstart method's strength by one rule, on seeds that are not reported.

    python benchmarks/quickstart_sweep.py --out DIR [--jobs 2] [--write docs/first-edition.md]

Each contender (a method at a strength, see dph.lab.quickstart.recipes) is trained on every seed.
Its score is the mean, over seeds and over in_domain and cross_domain, of greedy + pass@16: right at
the first try and right within many tries count alike. The strength with the best score is chosen;
scores less than half a point apart are a tie, which the larger strength wins. Results go to
DIR/sweep.jsonl, a line a contender and seed; what is there already is not run again, and with
--table nothing is run at all.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

from marked_blocks import write_block

from dph.lab.quickstart.run import quickstart
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
TIE = 0.005


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
    parser.add_argument("--table", action="store_true", help="only read what is there")
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
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
    if not arguments.table:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda seed: _in_a_process(arguments, seed), seeds))
    rows = _rows(arguments.out, seeds, contenders)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (arguments.out / "sweep.jsonl").write_text(lines, encoding="utf-8")
    table = _table(rows)
    print(table)
    if arguments.write:
        write_block(arguments.write, "sweep", table)


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


def _table(rows: list[dict[str, object]]) -> str:
    """Means over the seeds as markdown, and the choice."""
    means: dict[str, dict[str, float]] = {}
    for contender in dict.fromkeys(str(row["contender"]) for row in rows):
        found = [row for row in rows if row["contender"] == contender]
        names = [name for name in found[0] if name not in ("contender", "seed")]
        means[contender] = {n: fmean(float(str(row[n])) for row in found) for n in names}
    best = _chosen({contender: values["score"] for contender, values in means.items()})
    names = list(next(iter(means.values())))
    lines = [
        f"| | {' | '.join(name.replace('_', ' ').replace('.', ': ') for name in names)} |",
        f"|---|{'---:|' * len(names)}",
    ]
    for contender, values in means.items():
        name = f"**`{contender}`**" if contender in best else f"`{contender}`"
        lines.append(f"| {name} | {' | '.join(f'{values[n]:.3f}' for n in names)} |")
    seeds = sorted({int(str(row["seed"])) for row in rows})
    return "\n".join([*lines, "", f"Means over seeds {seeds}; the choice is in bold.", ""])


def _chosen(scores: dict[str, float]) -> list[str]:
    """The best contender of each method; the last (strongest) of those within TIE of it."""
    by_method: dict[str, list[str]] = {}
    for contender in scores:
        by_method.setdefault(contender.partition("@")[0], []).append(contender)
    chosen = []
    for contenders in by_method.values():
        top = max(scores[contender] for contender in contenders)
        chosen.append([c for c in contenders if scores[c] > top - TIE][-1])
    return chosen


if __name__ == "__main__":
    main()
