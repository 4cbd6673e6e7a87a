r"""How often the result that most answers agree on is right: counting answers, and counting texts.

    python lab/benchmarks/consensus.py RUN ... [--set cross_domain]

RUN is a directory with recipe.toml and samples.parquet: a run, or with --recipe of another one a
directory with samples alone (a quickstart's ``base``). Printed for each set that its recipe's
verifier can compare: mean@1, and how often the largest class of the samples to a problem is right
when each sample has a vote, and when each different text has one (``values = "distinct"`` of a
store). Classes of equal size share.
"""

import argparse
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pyarrow.parquet as pq

from dph.recipe import resolve_recipe
from dph.runs.plan import RunPlan, open_plan
from dph.runs.verifier_use import comparer
from dph.tasks.agreement import Classes


def main() -> None:
    """Print a line for each run and set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--set", action="append", dest="sets", help="default: in and across")
    parser.add_argument("--recipe", type=Path, help="recipe.toml of a run on the same data")
    arguments = parser.parse_args()
    print("| run | set | mean@1 | most answers | most texts |\n|---|---|---:|---:|---:|")
    for run in arguments.runs:
        recipe = (arguments.recipe or run / "recipe.toml").read_text(encoding="utf-8")
        with open_plan(resolve_recipe(tomllib.loads(recipe)), run) as plan:
            for name in arguments.sets or ("in_domain", "cross_domain"):
                print(f"| {run.name} | {name} | {_line(plan, run, name)} |", flush=True)


def _line(plan: RunPlan, run: Path, name: str) -> str:
    rows = pq.read_table(run / "samples.parquet", filters=[("set", "==", name)]).to_pylist()
    groups: dict[str, list[dict]] = {}
    for row in rows:
        if row["sample_index"] >= 0:
            groups.setdefault(row["problem_id"], []).append(row)
    problems = [p for p in plan.sets[name] if p.problem_id in groups]
    drawn = [groups[p.problem_id] for p in problems]
    texts = [[r["text"] if r["finished"] else None for r in group] for group in drawn]
    with comparer(plan, None, key="data", instead="leave it out") as known:
        classes = known.classes(problems, texts)
    right = [[r["reward"] == 1 for r in group] for group in drawn]
    told = list(zip(classes, texts, right, strict=True))
    found = (
        fmean(fmean(own) for own in right),
        fmean(_right(c, list(range(len(t))), r) for c, t, r in told),
        fmean(_right(c, t, r) for c, t, r in told),
    )
    return " | ".join(f"{100 * value:.1f}" for value in found)


def _right(classes: Classes, voters: Sequence[object], right: Sequence[bool]) -> float:
    """Whether the class with most different voters is right; a share where several have as many."""
    sizes = Counter(own for own, _ in set(zip(classes, voters, strict=True)) if own is not None)
    most = [own for own, size in sizes.items() if size == max(sizes.values())]
    return fmean(right[classes.index(own)] for own in most) if most else 0.0


if __name__ == "__main__":
    main()
