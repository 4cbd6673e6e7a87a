"""The tables of docs/cookbook.md: the models of the cookbook by several seeds, with intervals.

    python lab/benchmarks/cookbook_table.py --out DIR --seeds 0,1,2,3,4
    python lab/benchmarks/cookbook_table.py --write docs/cookbook.md
    python lab/benchmarks/cookbook_table.py --compare DIR
    python lab/benchmarks/cookbook_table.py --costs DIR --write docs/cookbook.md

The first runs `dph corpus run recipes/cookbook/cookbook.toml` in DIR, seed after seed of the models
over one set of data, and adds what was measured to ROWS. The second writes the page's tables from
ROWS alone. The third says whether the scores of one run, that of `make cookbook` for example, lie
where the page says; the fourth writes what that run cost. With ATEN_CPU_CAPABILITY=avx2 in the
environment torch computes with the kernels of an older processor.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from marked_blocks import write_block

from dph._base.files import read_json, write_text
from dph.results.over_seeds import mean_over_seeds, prediction_interval
from dph_corpus.shards import digest

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "lab/benchmarks/cookbook/runs.jsonl"
RECIPE = ROOT / "recipes/cookbook/cookbook.toml"
SET = "in_domain"
TITLES = {
    "base": "base",
    "broad": "fine-tuned, stage 1 (annotators, right or wrong)",
    "executed": "fine-tuned, stage 2 (what gave the right rows)",
    "grpo": "GRPO",
    "dph_f": "DPH-F",
}
PAIRS = (("executed", "broad"), ("grpo", "executed"), ("dph_f", "executed"), ("dph_f", "grpo"))
Row = Mapping[str, Any]


def main() -> None:
    """Run seeds, write the tables, or say where a run lies."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="where the seeds are run")
    parser.add_argument("--seeds", default="", help="of the models, such as 0,1,2")
    parser.add_argument("--workers", type=int, default=1, help="they decide nothing but time")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    parser.add_argument("--compare", type=Path, help="directory of one run")
    parser.add_argument("--costs", type=Path, help="directory of a run whose costs are written")
    arguments = parser.parse_args()
    for seed in filter(None, arguments.seeds.split(",")):
        run_seed(arguments.out, int(seed), arguments.workers)
    rows = read_rows()
    if arguments.write and arguments.costs:
        write_block(arguments.write, "costs", costs(read_json(arguments.costs / "costs.json")))
    elif arguments.write:
        write_block(arguments.write, "models", tables(rows))
    if arguments.compare:
        told = [*outside(rows, measured(arguments.compare, "the run"))]
        print("\n".join(told) or "every score lies within its interval of one run")
        raise SystemExit(1 if told else 0)


def run_seed(out: Path, seed: int, workers: int) -> None:
    """Run one seed of the models in ``out``, and add its rows; the data are made once."""
    command = [sys.executable, "-m", "dph", "corpus", "run", str(RECIPE), "--out", str(out)]
    command += ["--set", f"model_seed={seed}", "--workers", str(workers), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    name = read_json(out / "scores.json")["computed_by"].split()[-1]
    rows = [row for row in read_rows() if row["run"] != f"{seed} {name}"]
    rows += measured(out, f"{seed} {name}")
    write_text(ROWS, "".join(json.dumps(row) + "\n" for row in rows))


def measured(directory: Path, run: str) -> Iterator[Row]:
    """A row a model of the run in ``directory``, in per cent."""
    scores = read_json(directory / "scores.json")
    for name, sets in scores["models"].items():
        of = sets[SET]
        yield {
            "run": run,
            "recipe": recipe_digest(),
            "computed_by": scores["computed_by"],
            "problems": of["problems"],
            "samples": scores["samples"],
            "model": name,
            "greedy": round(100 * of["greedy"], 4),
            **{f"pass@{k}": round(100 * value, 4) for k, value in of["pass_at_k"].items()},
        }


def recipe_digest() -> str:
    """Of what the recipe says; its comments do not count."""
    return digest(tomllib.loads(RECIPE.read_text(encoding="utf-8")))


def read_rows() -> list[Row]:
    """What was measured until now."""
    text = ROWS.read_text(encoding="utf-8") if ROWS.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def tables(rows: Sequence[Row]) -> str:
    """Scores with both intervals, paired differences, and means by the kernels."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    by_kernels = {name: [r for r in runs if r.endswith(name)] for name in kernels(runs)}
    seeds = {name: ", ".join(run.split()[0] for run in of) for name, of in by_kernels.items()}
    told = "; ".join(f"{name}: seeds {of}" for name, of in seeds.items())
    asked = f"{rows[0]['problems']} questions, {rows[0]['samples']} samples each"
    parts = [
        f"{len(runs)} runs ({told}), {asked}. "
        "In per cent: mean ± half of its 95% interval over runs. In brackets the span of one run: "
        "a score of another run lies within it with a chance of 95%.",
        "\n".join(_scores(rows)),
        "Differences within a run, in points, with 95% intervals over runs; in brackets how many "
        "runs have one above 0:",
        "\n".join(_differences(rows)),
        "Means by the kernels that computed them, in brackets the lowest and the highest run:",
        "\n".join(_by_kernels(rows, by_kernels)),
    ]
    return "\n\n".join(parts) + "\n"


def costs(spent: Mapping[str, Mapping[str, float]]) -> str:
    """Seconds that passed and seconds of processor time, by the stages that took any."""
    shown = {name: cost for name, cost in spent.items() if cost["cpu_seconds"] >= 0.5}
    lines = _head(["s", "processor time, s"])
    for name, cost in {**shown, "all": _total(spent)}.items():
        lines.append(_row(name, [f"{cost[key]:.0f}" for key in ("seconds", "cpu_seconds")]))
    return "\n".join(lines) + "\n"


def _total(spent: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {key: sum(one[key] for one in spent.values()) for key in ("seconds", "cpu_seconds")}


def kernels(runs: Sequence[str]) -> list[str]:
    """Names of the kernels, in the order they first occur."""
    return list(dict.fromkeys(run.split()[1] for run in runs))


def _scores(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head(columns(rows))
    for model, title in TITLES.items():
        cells = []
        for name in columns(rows):
            values = column(rows, model, name)
            low, high = span(rows, model, name)
            cells.append(f"{_mean(values)} ({low:.0f} to {high:.0f})")
        yield _row(title, cells)


def _differences(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head(columns(rows))
    for later, earlier in PAIRS:
        cells = []
        for name in columns(rows):
            pairs = zip(column(rows, later, name), column(rows, earlier, name), strict=True)
            values = [after - before for after, before in pairs]
            above = sum(value > 0 for value in values)
            cells.append(f"{_mean(values, '+')} ({above} of {len(values)})")
        yield _row(f"{TITLES[later].split(' (')[0]} minus {TITLES[earlier].split(' (')[0]}", cells)


def _by_kernels(rows: Sequence[Row], runs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    shown = ("greedy", columns(rows)[-1])
    yield from _head([f"{name}, {column}" for column in shown for name in runs])
    for model, title in TITLES.items():
        cells = [
            _range(column([row for row in rows if row["run"] in of], model, name))
            for name in shown
            for of in runs.values()
        ]
        yield _row(title, cells)


def columns(rows: Sequence[Row]) -> list[str]:
    """The columns of scores: greedy and Pass@k."""
    return [name for name in rows[0] if name == "greedy" or name.startswith("pass@")]


def column(rows: Sequence[Row], model: str, name: str) -> list[float]:
    """A score of a model, run by run."""
    return [row[name] for row in rows if row["model"] == model]


def span(rows: Sequence[Row], model: str, name: str) -> tuple[float, float]:
    """Where one more run lies with a chance of 95%.

    Never narrower than one question either way, which is what a greedy score can tell.
    """
    values = column(rows, model, name)
    low, high = prediction_interval(values)
    question = 100 / rows[0]["problems"]
    return (
        max(0.0, min(low, fmean(values) - question)),
        min(100.0, max(high, fmean(values) + question)),
    )


def outside(rows: Sequence[Row], run: Iterator[Row]) -> Iterator[str]:
    """A line for every score of a run that lies outside its interval."""
    for row in run:
        for name in columns(rows):
            low, high = span(rows, row["model"], name)
            if not low <= row[name] <= high:
                yield f"{row['model']}, {name}: {row[name]:.1f} is not in {low:.1f} to {high:.1f}"


def _range(values: Sequence[float]) -> str:
    return f"{fmean(values):.1f} ({min(values):.0f} to {max(values):.0f})"


def _mean(values: Sequence[float], sign: str = "") -> str:
    found = mean_over_seeds(values)
    return f"{found.mean:{sign}.1f} ± {found.half or 0.0:.1f}"


def _head(names: Sequence[str]) -> list[str]:
    return [_row("", names), _row("---", ["---:"] * len(names))]


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
