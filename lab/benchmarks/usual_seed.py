"""Whether a quickstart's seed is like the study's: each score among those of the ten report seeds.

    python lab/benchmarks/usual_seed.py QUICKSTART RESULTS [--write docs/quickstart-world.md]

QUICKSTART is the directory of a quickstart, RESULTS that of the study. A further seed lies within
the interval with a chance of 95% if scores are normal (dph.results.over_seeds).
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq
from marked_blocks import write_block

from dph._base.files import read_json
from dph.results.over_seeds import prediction_interval
from dph.results.vocabulary import BASE, method_label, set_label

SETS = ("in_domain", "cross_domain")
LABELS = {BASE: BASE, "grpo": "GRPO", "dph_f": "DPH-F", "dph_broad": "DPH-broad"}
Scores = Mapping[tuple[str, str, str], list[float]]


def main() -> None:
    """Print the table, or put it between its marks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("quickstart", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--world", default="sql-2")
    parser.add_argument("--write", type=Path, help="a page with the marks of `seed`")
    arguments = parser.parse_args()
    summary = read_json(arguments.quickstart / "summary.json")
    scores = report_scores(arguments.results / "study.parquet", arguments.world)
    head = (
        f"| model | set | of | seed {summary['seed']} | mean | lowest to highest | 95% of seeds |"
    )
    table = "\n".join([head, "|---|---|---|---:|---:|---:|---:|", *rows(summary, scores), ""])
    if arguments.write:
        write_block(arguments.write, "seed", table)
    else:
        print(table, end="")


def report_scores(path: Path, world: str) -> Scores:
    """Per cent over the report seeds, by label, set and metric."""
    found: dict[tuple[str, str, str], list[float]] = {}
    filters = [("world", "=", world), ("split", "=", "report")]
    for row in pq.read_table(path, filters=filters).to_pylist():
        metric = row["metric"] if row["k"] is None else f"Pass@{row['k']}"
        if row["value"] is not None:
            key = (row["label"], row["set"], metric)
            found.setdefault(key, []).append(100 * row["value"])
    return found


def rows(summary: Mapping[str, Any], scores: Scores) -> Iterator[str]:
    """A line for each score of each model that both have; bold where it is not among 95%."""
    for name, label in LABELS.items():
        document = summary[BASE] if name == BASE else summary["methods"].get(name)
        for of in SETS if document else ():
            own = document["sets"][of]
            for metric, value in (("greedy", own["greedy"]), ("Pass@16", own["pass_at_k"]["16"])):
                cells = line(100 * value, scores[label, of, metric])
                yield f"| {method_label(name)} | {set_label(of)} | {metric} | {cells} |"


def line(value: float, known: list[float]) -> str:
    """The seed's own score, and where those of the others lie, cut at 0 and 100."""
    mean = fmean(known)
    low, high = prediction_interval(known, lowest=0.0, highest=100.0)
    own = f"{value:.1f}" if low <= value <= high else f"**{value:.1f}**"
    span = f"{min(known):.1f} to {max(known):.1f}"
    return f"{own} | {mean:.1f} | {span} | {low:.1f} to {high:.1f}"


if __name__ == "__main__":
    main()
