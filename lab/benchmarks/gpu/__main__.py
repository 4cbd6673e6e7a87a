"""Check a GPU: is everything right there, and how fast is it next to others?

    make gpu-check                              # or: python -m lab.benchmarks.gpu
    python -m lab.benchmarks.gpu --only rates,correct,half --out DIR
    python -m lab.benchmarks.gpu --recipes          # a short run of recipes, through ``dph run``
    python -m lab.benchmarks.gpu --add DIR/gpu-check.json
    python -m lab.benchmarks.gpu --device cpu --tiny    # does it run? the numbers mean nothing

Parts are in the order of their importance. No measurement begins after ``--seconds``, a part that
fails says why and leaves the others alone, and the exit code is 1 where something was not right.
Each shape has a row for this package, one for it with Liger's kernels where they are installed, and
one for ``generate`` with padded updates; the first has TRL and vLLM where those are. The last line
is ``RESULT`` and one JSON object, which ``--out`` also writes.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from dph._base.files import write_json
from lab.benchmarks.gpu import peers, steps
from lab.benchmarks.gpu.check import Check, problems
from lab.benchmarks.gpu.correct import correct
from lab.benchmarks.gpu.places import PLACES, Place, build, checkpoint, fit, liger
from lab.benchmarks.gpu.rates import rates
from lab.benchmarks.gpu.real import real
from lab.benchmarks.gpu.recipes import recipes
from lab.benchmarks.speed.rows import merge_rows, read_rows, write_rows
from lab.benchmarks.speed.runs import Row
from lab.benchmarks.speed.tables import refresh_readme, table

HERE = Path(__file__).resolve().parents[1]
RECIPES_SECONDS = 235.0
RESULTS, README = HERE / "results.jsonl", HERE / "README.md"


def shape(check: Check, place: Place) -> None:
    """The rows of one shape."""
    place = place.made_tiny() if check.tiny else place
    title = f"{place.title}, {place.shape}"
    row = check.row("gpu", f"{place.name}: ours", shape=title, side="this package")
    with check.guarded(row, "model"):
        check.require()
        world, model = build(check, place)
        fitted = fit(check, place, model)
        if fitted.checkpointing:
            checkpoint(model)
        facts = {"checkpointing": fitted.checkpointing, "micro_tokens": fitted.tokens}
        check.note(row, **facts)
        fused = check.cuda and find_spec("liger_kernel") is not None
        # The package takes Liger where it is: long steps without it are reckoned from their parts.
        plain = replace(place, whole=place.whole and (not fused or place.name == "half"))
        steps.measure(check, row, plain, steps.our_side(world, model, fitted), fitted)
        check.tidy()
        name, side = f"{place.name}: padded", "generate, padded rows"
        other = check.row("gpu", name, shape=title, side=side, **facts)
        peers.measure(check, other, place, model, fitted)
        check.tidy()
        if place.name == "half":
            peers.measure_trl(check, title, world, lambda: build(check, place)[1])
            peers.measure_vllm(check, title, place, model)
        if fused:
            name, side = f"{place.name}: ours with Liger", "this package, Liger"
            row = check.row("gpu", name, shape=title, side=side, **facts)
            with check.guarded(row, "Liger"), liger(model):
                steps.measure(check, row, place, steps.our_side(world, model, fitted), fitted)


def parts(options: argparse.Namespace) -> Mapping[str, Callable[[Check], None]]:
    """Every part by its name, the most important first."""
    return {
        "rates": rates,
        "correct": correct,
        "half": partial(shape, place=PLACES["half"]),
        "sql": partial(shape, place=PLACES["sql"]),
        "one": partial(shape, place=PLACES["one"]),
        "eight": partial(shape, place=PLACES["eight"]),
        "context": partial(shape, place=PLACES["context"]),
        "real": partial(real, model=options.smollm2, spider=options.spider),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Check what was selected; 1 if something is not right."""
    options = _parser().parse_args(arguments)
    if options.add:
        return add(options.add)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("there is no CUDA device: --device cpu --tiny tries the check itself")
        return 2
    warnings.simplefilter("ignore")  # of other packages; the test suite shows ours
    transformers_logging.set_verbosity_error()
    seconds = min(options.seconds, RECIPES_SECONDS) if options.recipes else options.seconds
    check = Check(device=options.device, tiny=options.tiny, seconds=seconds)
    known = parts(options)
    names = options.only.split(",") if options.only else list(known)
    if unknown := set(names) - set(known):
        print(f"no part {', '.join(sorted(unknown))}; known: {', '.join(known)}")
        return 2
    chosen = {name: part for name, part in known.items() if name in names}
    for name, part in ({"recipes": recipes} if options.recipes else chosen).items():
        if check.left > 0:
            part(check)
            check.tidy()
            write(check, options.out)
        else:
            print(f"{name}: no time is left")
    return report(check, options.out)


def report(check: Check, out: Path | None) -> int:
    """Print the tables and the rows; 1 if something is not right."""
    rows = check.rows
    for name in ("gpu_correct", "gpu", "gpu_recipes"):
        if any(row["bench"] == name for row in rows):
            print(f"\n{table(name, [row for row in rows if row['device'] == check.device])}")
    for problem in problems(rows):
        print(problem)
    wrong = [row["case"] for row in rows if row.get("passed") is False]
    print(f"\n{'FAIL: ' + '; '.join(wrong) if wrong else 'PASS'}")
    write(check, out)
    print("RESULT", json.dumps({"rows": rows, "wrong": wrong}))
    return int(bool(wrong))


def write(check: Check, out: Path | None) -> None:
    """Keep the rows so far: a check that is killed leaves those of the parts that were done."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "gpu-check.json", {"rows": check.rows})


def add(path: Path, results: Path = RESULTS, readme: Path = README) -> int:
    """Put the rows of a result into `RESULTS`, and the tables made of them into `README`."""
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    merged = merge_rows(read_rows(results), rows)
    write_rows(results, merged)
    refresh_readme(readme, merged)
    print(f"{len(rows)} rows are in {results} and in the tables of {readme}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.gpu", description="Check a GPU."
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="try everything with small sizes")
    parser.add_argument("--seconds", type=float, default=270, help="no measurement begins later")
    parser.add_argument("--only", default="", help="parts, separated by commas")
    parser.add_argument("--recipes", action="store_true", help="short runs of recipes instead")
    parser.add_argument("--smollm2", type=Path, help="directory of SmolLM2 (make smollm2)")
    parser.add_argument("--spider", type=Path, help="train.jsonl of dph tasks spider, database/")
    parser.add_argument("--out", type=Path, help="directory for gpu-check.json")
    parser.add_argument("--add", type=Path, help="a gpu-check.json whose rows become the project's")
    return parser


if __name__ == "__main__":
    sys.exit(main())
