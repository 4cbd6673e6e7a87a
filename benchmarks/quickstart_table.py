"""The table of docs/first-edition.md: several seeds, intervals over seeds, paired differences.

    python benchmarks/quickstart_table.py --out DIR [--seeds 0,1,2,3] [--write FILE]

Runs `dph quickstart` for every seed (what is done already is kept), then writes DIR/table.md.
"a ± b" is the mean over seeds and half the width of its 95% t-interval. With --write and --details
the parts of those files between the markers are replaced (docs/first-edition.md).
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

from marked_blocks import write_block

from dph._base.files import write_text
from dph.results.charts.figures import quickstart_figure
from dph.results.over_seeds import aggregate_summaries, mean_over_seeds
from dph.runs.train.tracking import read_metrics

METHODS = (
    "grpo,dapo,rkl@0.01,rkl@0.03,rkl@0.3,alpha,dph_f,dph_f@0.3,dph_js,dph_js_definition,"
    "dph_f@0,grpo+slow,dph_f+slow"
)

Sets = dict[str, Any]
Value = Callable[[Sets], float]
COLUMNS: dict[str, Value] = {
    "greedy": lambda sets: 100 * sets["in_domain"]["greedy"],
    "mean@1": lambda sets: 100 * sets["in_domain"]["mean"],
    "pass@8": lambda sets: 100 * sets["in_domain"]["pass_at_k"]["8"],
    "pass@16": lambda sets: 100 * sets["in_domain"]["pass_at_k"]["16"],
    "styles": lambda sets: sets["in_domain"]["effective_styles"],
    "greedy across": lambda sets: 100 * sets["cross_domain"]["greedy"],
    "pass@16 across": lambda sets: 100 * sets["cross_domain"]["pass_at_k"]["16"],
    "sums mean@1": lambda sets: 100 * sets["arithmetic"]["mean"],
}


def main() -> None:
    """Run the seeds, write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2,3")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--jobs", type=int, default=2, help="seeds run side by side")
    parser.add_argument("--write", type=Path, help="file whose table is replaced")
    parser.add_argument("--details", type=Path, help="file whose detailed tables are replaced")
    parser.add_argument("--picture", type=Path, help="where the picture over all seeds goes")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda seed: _quickstart(arguments, seed), seeds))
    summaries = [
        json.loads((arguments.out / f"seed_{seed}" / "summary.json").read_text()) for seed in seeds
    ]
    labels = arguments.methods.split(",")
    models = _models(summaries, labels)
    table = _table(models, seeds)
    details = _differences(models) + _cost(arguments.out, labels, seeds)
    write_text(arguments.out / "table.md", f"{table}\n{details}")
    print(table, details, sep="\n")
    if arguments.write:
        write_block(arguments.write, "table", table)
    if arguments.details:
        write_block(arguments.details, "details", details)
    if arguments.picture:
        _picture(arguments, summaries, seeds)


def _quickstart(arguments: argparse.Namespace, seed: int) -> None:
    dph = [str(Path(sys.executable).with_name("dph")), "quickstart"]
    options = ["--world", "1", "--jobs", "1", "--methods", arguments.methods, "--seed", str(seed)]
    out = ["--out", str(arguments.out / f"seed_{seed}")]
    subprocess.run([*dph, *options, *out], check=True, stdout=subprocess.DEVNULL)


def _models(summaries: Sequence[dict[str, Any]], labels: Sequence[str]) -> dict[str, list[Sets]]:
    """The sets of every model, seed by seed."""
    base = {"base": [s["base"]["sets"] for s in summaries]}
    return base | {label: [s["methods"][label]["sets"] for s in summaries] for label in labels}


def _table(models: dict[str, list[Sets]], seeds: Sequence[int]) -> str:
    rows = [
        _row(f"`{label}`", [_cell([of(s) for s in sets]) for of in COLUMNS.values()])
        for label, sets in models.items()
    ]
    which = f"Seeds {', '.join(map(str, seeds))}"
    head = f"{which}: mean ± half of the 95% t-interval over seeds, in per cent but for styles."
    return "\n".join([head, "", *_head(list(COLUMNS)), *rows, ""])


def _differences(models: dict[str, list[Sets]]) -> str:
    rows = [
        _row(
            f"`{label}`",
            [
                _cell([of(s) - of(g) for s, g in zip(sets, models["grpo"], strict=True)], "+")
                for of in COLUMNS.values()
            ],
        )
        for label, sets in models.items()
        if label != "grpo"
    ]
    return "\n".join(["Minus GRPO of the same seed:", "", *_head(list(COLUMNS)), *rows, ""])


def _cost(out: Path, labels: Sequence[str], seeds: Sequence[int]) -> str:
    """What each method used up, from its metrics.jsonl."""
    columns = ["samples drawn", "rows with a gradient", "groups without signal", "seconds"]
    rows = []
    for label in labels:
        name = label.replace("@", "_").replace("+", "_")
        runs = [read_metrics(out / f"seed_{seed}" / name / "metrics.jsonl") for seed in seeds]
        drawn = fmean(sum(m["tokens"] / m["completion_tokens"] for m in run) for run in runs)
        used = fmean(sum(m["rows"] for m in run) for run in runs)
        flat = 100 * fmean(m["zero_variance"] for run in runs for m in run)
        seconds = fmean(sum(m["seconds"] for m in run) for run in runs)
        rows.append(
            _row(f"`{label}`", [f"{drawn:.0f}", f"{used:.0f}", f"{flat:.0f}%", f"{seconds:.0f}"])
        )
    which = "What one training run used (DPH also drew 5400 samples once, to fill its pool):"
    return "\n".join(["", which, "", *_head(columns), *rows, ""])


def _cell(values: Sequence[float], sign: str = "") -> str:
    found = mean_over_seeds(values)
    return f"{found.mean:{sign}.1f} ± {found.half or 0.0:.1f}"


def _head(columns: Sequence[str]) -> list[str]:
    return [_row("", columns), _row("---", ["---:"] * len(columns))]


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _picture(
    arguments: argparse.Namespace, summaries: Sequence[dict[str, Any]], seeds: Sequence[int]
) -> None:
    shown = ("grpo", "dph_f", "dph_js")
    picked = [{**s, "methods": {name: s["methods"][name] for name in shown}} for s in summaries]
    curves = {name: _mean_styles(arguments.out, seeds, name) for name in shown}
    quickstart_figure(aggregate_summaries(picked), curves, arguments.picture)


def _mean_styles(out: Path, seeds: Sequence[int], name: str) -> list[dict[str, float]]:
    runs = [read_metrics(out / f"seed_{seed}" / name / "metrics.jsonl") for seed in seeds]
    return [
        {
            "step": steps[0]["step"],
            "effective_styles": fmean(line["effective_styles"] for line in steps),
        }
        for steps in zip(*runs, strict=True)
    ]


if __name__ == "__main__":
    main()
