"""How much longer each method of a study takes than its reference, by the seconds of its runs.

    python lab/benchmarks/study_costs.py lab/benchmarks/study/STUDY.toml lab/benchmarks/study/results

Seconds of stores and training (a consolidation is part of it), without pools and evaluations,
paired by report seed: the median of the ratios, and their range. A seed whose runs were made on
several machines, or beside other work, widens that. Interpolations train nothing and are left out.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from dph._base.files.rows import json_rows
from lab.study.plan import REPORT
from lab.study.planner import Planner
from lab.study.rows import Places, read_rows
from lab.study.rule_lock import locked_choices
from lab.study.settings import load_study

COUNTED = ("stores", "train")


def main() -> None:
    """Print a table for each world."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study", type=Path, help="the STUDY.toml")
    parser.add_argument("results", type=Path, help="its directory of results")
    arguments = parser.parse_args()
    for line in tables(arguments.study, arguments.results):
        print(line)


def tables(study_file: Path, results: Path) -> Iterator[str]:
    """Markdown: a method a row, the reference left out."""
    study = load_study(study_file)
    reference = study.file.study.reference or study.labels[0]
    taken = _seconds(results / "costs.jsonl")
    places = Places(results)
    plan = Planner(study, locked_choices(places)).plan(read_rows(places))
    found: dict[str, dict[str, dict[int, float]]] = {}
    for run in plan.runs:
        trains = run.variant.interpolate is None
        if run.split == REPORT and trains and run.id in taken:
            of_world = found.setdefault(run.variant.site.name, {})
            of_world.setdefault(run.label, {})[run.seed] = taken[run.id]
    for world, methods in found.items():
        base = methods.get(reference, {})
        yield f"| {world} | times {reference} | from | to | seeds |"
        yield "|---|---:|---:|---:|---:|"
        for label, seconds in methods.items():
            ratios = sorted(seconds[seed] / base[seed] for seed in seconds.keys() & base.keys())
            if ratios and label != reference:
                cells = (median(ratios), ratios[0], ratios[-1])
                yield f"| {label} | {' | '.join(f'{c:.2f}' for c in cells)} | {len(ratios)} |"
        yield ""


def _seconds(path: Path) -> dict[str, float]:
    """Seconds of the counted stages, by run; runs that have none of them are left out."""
    found = {}
    for _, line in json_rows(path):
        stages = [line["seconds"][stage] for stage in COUNTED if stage in line["seconds"]]
        if stages:
            found[line["run"]] = sum(stages)
    return found


if __name__ == "__main__":
    main()
