"""Run the speed suite.

    python -m lab.benchmarks.speed [--only full_step,sampling/early] [--threads 1,2] [--repeats 5]
                               [--quick] [--device cuda --dtype bfloat16] [--out DIR]

Every case runs in a process of its own with so many threads. Rows go to DIR/results.jsonl, where
they replace older ones of the same case; then the tables of DIR/README.md are made anew from that
file.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from lab.benchmarks.speed.rows import merge_rows, read_rows, write_rows
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.shapes import REAL
from lab.benchmarks.speed.suite import selected
from lab.benchmarks.speed.tables import refresh_readme, row_line
from lab.benchmarks.speed.threads import thread_environment
from lab.smollm2 import HOW, smollm2_place

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
SMOKE = ROOT / "build" / "bench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was selected; 1 if a case failed."""
    options = _parser().parse_args(arguments)
    out: Path = options.out or (SMOKE if options.quick else HERE)
    out.mkdir(parents=True, exist_ok=True)
    threads = tuple(int(n) for n in options.threads.split(","))
    failed = []
    for bench, case, run in _jobs(options, threads):
        label = f"{bench}/{case}, {run.threads} thread{'s' if run.threads > 1 else ''}"
        started = time.perf_counter()
        rows = _measure(bench, case, run)
        print(f"{label}: {time.perf_counter() - started:.0f} s", flush=True)
        if rows is None:
            failed.append(label)
            continue
        for row in rows:
            print("   ", row_line(row), flush=True)
        results = out / "results.jsonl"
        write_rows(results, merge_rows(read_rows(results), rows))
    _report(out)
    for label in failed:
        print(f"failed: {label}", file=sys.stderr)
    return int(bool(failed))


def _jobs(options: argparse.Namespace, threads: Sequence[int]) -> Iterator[tuple[str, str, Run]]:
    for count in threads:
        run = Run(
            repeats=1 if options.quick else options.repeats,
            threads=count,
            device=options.device,
            dtype=options.dtype,
            quick=options.quick,
        )
        for bench, case in selected(options.only, without_trl=options.without_trl):
            if case in REAL and smollm2_place() is None:
                print(f"{bench}/{case} is left out: {HOW}", file=sys.stderr)
                continue
            yield bench, case, run


def _measure(bench: str, case: str, run: Run) -> list[Row] | None:
    """The rows of a case, measured in a process of its own; None (and its errors) if it failed."""
    with tempfile.TemporaryDirectory(prefix="dph-bench-") as scratch:
        out = Path(scratch) / "rows.jsonl"
        settings = json.dumps(asdict(run))
        done = subprocess.run(
            [sys.executable, "-m", "lab.benchmarks.speed.job", bench, case, settings, str(out)],
            env=dict(thread_environment(run.threads)),
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return None
        return read_rows(out)


def _report(out: Path) -> None:
    rows = read_rows(out / "results.jsonl")
    readme = out / "README.md"
    if readme.exists():
        refresh_readme(readme, rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.speed", description="Speed suite."
    )
    parser.add_argument("--only", default="", help="bench or bench/case, separated by commas")
    parser.add_argument("--threads", default="1,2", help="thread counts, separated by commas")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a smoke run: tiny shapes, one repeat")
    parser.add_argument("--without-trl", action="store_true", help="leave out what needs TRL")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument(
        "--out", type=Path, help="default: lab/benchmarks/, or build/bench if --quick"
    )
    return parser


if __name__ == "__main__":
    if "cuda" in sys.argv and not torch.cuda.is_available():
        print("there is no CUDA device: the GPU rows are not run", file=sys.stderr)
        sys.exit(2)
    sys.exit(main())
