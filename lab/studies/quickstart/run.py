"""The study of the quickstart's effect: ``dph quickstart`` on ten training seeds, by README's rule.

    python lab/studies/quickstart/run.py --work WORK            # test seeds that have no rows yet
    python lab/studies/quickstart/run.py --write                # the tables of README.md

A seed's rows are added when all of its methods are done; killed and started again it continues.
"""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from dph._base.provenance import commit_of
from dph.quickstart.archive import task_files
from dph.results.vocabulary import BASE, method_label

HERE = Path(__file__).parent
ROWS, PAGE = HERE / "rows.jsonl", HERE / "README.md"
DEVELOPMENT = HERE / "development.jsonl"
SEEDS = 10
METHODS = ("grpo", "dph_f")
SETS = {"in_domain": "in domain", "cross_domain": "across"}
NEEDED = 9
"""Seeds of the rule: GRPO falls in at least as many, DPH-F in at most all others."""
Row = dict[str, Any]


def read_rows(path: Path = ROWS) -> list[Row]:
    """The rows that there are."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_seed(seed: int, work: Path) -> list[Row]:
    """Run the quickstart with a seed and return a row for each method and set."""
    words = ["quickstart", "--seed", seed, "--methods", ",".join(METHODS), "--jobs", 1]
    command = [sys.executable, "-m", "dph", *words, "--out", work / str(seed), "--json"]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return list(rows_of(json.loads(done.stdout), seed))


def data_digest() -> str:
    """SHA-256 over the names and contents of the task's files."""
    digest = sha256()
    for name, content in sorted(task_files("countdown").items()):
        digest.update(f"{name} {sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def rows_of(summary: Row, seed: int) -> Iterator[Row]:
    """Rows of a quickstart's summary."""
    made = {
        "data": data_digest(),
        "commit": commit_of(HERE.parents[2] / "src"),
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "kernels": torch.backends.cpu.get_cpu_capability(),
    }
    for method, changes in summary["solved"].items():
        for change in changes:
            before, after = (
                model["sets"][change["set_name"]]
                for model in (summary["base"], summary["methods"][method])
            )
            yield {
                "seed": seed,
                "method": method,
                "set": change["set_name"],
                "problems": before["problems"],
                **{f"base_{name}": value for name, value in scores(before).items()},
                **scores(after),
                "difference": points(change["change"], before),
                "lo": points(change["lo"], before),
                "hi": points(change["hi"], before),
                **made,
            }


def scores(of_set: Row) -> Row:
    """First try, mean and Pass@16, in per cent, and styles."""
    found = {"greedy": of_set["greedy"], "mean": of_set["mean"]}
    found["pass_at_16"] = of_set["pass_at_k"]["16"]
    return {name: round(100 * value, 2) for name, value in found.items()} | {
        "styles": round(of_set["effective_styles"], 2)
    }


def points(problems: float, of_set: Row) -> float:
    """A number of problems as points of per cent."""
    return round(100 * problems / int(of_set["problems"]), 2)


def falls(rows: Sequence[Row]) -> bool:
    """Whether an interval of a seed lies below 0, in domain or across."""
    return any(row["hi"] < 0 for row in rows)


def methods_of(rows: Sequence[Row]) -> list[str]:
    """The methods of rows, the first first."""
    return list(dict.fromkeys(row["method"] for row in rows))


def answer(rows: Sequence[Row]) -> str:
    """The rule applied to the rows, in words."""
    seeds = sorted({row["seed"] for row in rows})
    counts = {
        method: sum(
            falls([row for row in rows if (row["seed"], row["method"]) == (seed, method)])
            for seed in seeds
        )
        for method in methods_of(rows)
    }
    said = "; ".join(f"{method_label(m)} falls in {n} of {len(seeds)}" for m, n in counts.items())
    if len(seeds) < SEEDS:
        return f"{said}. {len(seeds)} of {SEEDS} seeds are done: no answer yet."
    shown = counts["grpo"] >= NEEDED and counts["dph_f"] <= SEEDS - NEEDED
    return f"{said}. By the rule the effect is {'shown' if shown else 'not shown'}."


def table(rows: Sequence[Row]) -> list[str]:
    """A line for each seed, and the means."""
    methods = methods_of(rows)
    names = [f"{method_label(m)} {where}" for m in methods for where in SETS.values()]
    lines = [f"| seed | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for seed in sorted({row["seed"] for row in rows}):
        cells = []
        for method in methods:
            for name in SETS:
                one = next(
                    row
                    for row in rows
                    if (row["seed"], row["method"], row["set"]) == (seed, method, name)
                )
                text = f"{one['difference']:+.1f} ({one['lo']:+.1f} to {one['hi']:+.1f})"
                cells.append(f"**{text}**" if one["hi"] < 0 else text)
        lines.append(f"| {seed} | {' | '.join(cells)} |")
    return lines


def means(rows: Sequence[Row]) -> list[str]:
    """Mean scores over seeds, of the base model and of every method."""
    columns = ("greedy", "mean", "pass_at_16", "styles")
    heads = ("first try", "mean@1", "Pass@16", "ways")
    lines = [
        "| model | " + " | ".join(f"{where}: {h}" for where in SETS.values() for h in heads) + " |",
        f"|---|{'---:|' * len(heads) * len(SETS)}",
    ]
    methods = methods_of(rows)
    for model in ("base", *methods):
        cells = []
        for name in SETS:
            of_set = [r for r in rows if r["set"] == name and r["method"] in (model, methods[0])]
            of_set = [r for r in of_set if model == "base" or r["method"] == model]
            for column in columns:
                key = f"base_{column}" if model == "base" else column
                cells.append(f"{sum(r[key] for r in of_set) / len(of_set):.1f}")
        lines.append(f"| {method_label(model)} | {' | '.join(cells)} |")
    return lines


def development() -> list[str]:
    """Every finished run on a development seed, a line each."""
    chosen = ("method", "strength", "learning_rate", "threshold", "keep", "wrong_final", "seed")
    runs: dict[str, dict[str, Row]] = {}
    rows = read_rows(DEVELOPMENT)
    for row in (row for row in rows if row["method"] != BASE):
        cells = " | ".join("" if row[key] is None else str(row[key]) for key in chosen)
        runs.setdefault(cells, {})[row["set"]] = row
    heads = [f"{where}: {what}" for where in SETS.values() for what in ("mean@1", "Pass@16 - base")]
    lines = [f"| {' | '.join((*chosen, *heads))} |", f"|{'---|' * len(chosen)}{'---:|' * 4}"]
    for cells, sets in runs.items():
        numbers = (
            f"{sets[name]['mean']:.1f} | {sets[name]['difference']:+.1f} "
            f"({sets[name]['lo']:+.1f} to {sets[name]['hi']:+.1f})"
            for name in SETS
        )
        lines.append(f"| {cells} | {' | '.join(numbers)} |")
    of_base = [f"{r['pass_at_16']:.1f} {SETS[r['set']]}" for r in rows if r["method"] == BASE]
    said = f"From 64 samples a problem, the base model's Pass@16 is {' and '.join(of_base)}."
    return [*lines, "", said]


def write_page() -> None:
    """Put the answer and the tables of the rows between the page's marks."""
    rows, text = read_rows(), PAGE.read_text()
    texts: dict[str, list[str]] = {"rows": []}
    for data in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == data]
        head = f"**Data {data[:12]}.** {answer(own)}"
        texts["rows"] += [head, "", *table(own), "", *means(own), ""]
    for name, lines in (texts | {"development": development()}).items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        text = before + begin + "\n".join([*lines, ""]) + end + rest.partition(end)[2]
    PAGE.write_text(text)


def main() -> None:
    """Run the seeds that are missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="directory of the runs")
    parser.add_argument("--first-seed", type=int, default=100, help="of ten [default: 100]")
    parser.add_argument("--write", action="store_true", help="write README.md's tables")
    asked = parser.parse_args()
    done = {row["seed"] for row in read_rows()}
    seeds = range(asked.first_seed, asked.first_seed + SEEDS)
    for seed in [seed for seed in seeds if seed not in done] if asked.work else ():
        rows = run_seed(seed, asked.work)
        with ROWS.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    if asked.write:
        write_page()


if __name__ == "__main__":
    main()
