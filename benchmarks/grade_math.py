"""Rows per second of ``math`` against math-verify called row by row, and whether they agree.

    python benchmarks/grade_math.py ../shared/data/math/scored_cases_examples.parquet

Both sides start warm. math-verify parses the gold and the response and verifies, in this process,
with its own time limits.
"""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from math_verify import parse, verify

from dph.records import Outcome
from dph.tasks.verifiers.math.verifier import MathPair, MathVerifier


def main() -> None:
    """Time both on the same rows and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("rows", type=Path, help="parquet with gold, response and label")
    arguments.add_argument("--workers", type=int, default=2)
    options = arguments.parse_args()
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    rows = pq.read_table(options.rows).to_pylist()
    plain([{"gold": "x+1", "response": "$1+x$"}])
    with MathVerifier(workers=options.workers) as verifier:
        warm = [MathPair("x+1", rf"\boxed{{{n}+x}}") for n in range(8 * options.workers)]
        verifier.judge(warm)
        ours, our_speed = timed(lambda: pooled(verifier, rows))
    theirs, their_speed = timed(lambda: plain(rows))
    print(f"math, {options.workers} workers: {our_speed:8.1f} rows/s")
    print(f"math-verify, row by row: {their_speed:8.1f} rows/s")
    print(f"ratio: {our_speed / their_speed:.2f}")
    report(rows, ours, theirs)


def pooled(verifier: MathVerifier, rows: Sequence[dict[str, Any]]) -> list[bool]:
    """The verdicts of ``math``."""
    judged = verifier.judge([MathPair(row["gold"], row["response"]) for row in rows])
    return [each.verdict.outcome is Outcome.CORRECT for each in judged]


def plain(rows: Sequence[dict[str, Any]]) -> list[bool]:
    """The verdicts of math-verify as its README calls it."""
    return [verify(parse(_as_latex(row["gold"])), parse(row["response"])) for row in rows]


def _as_latex(gold: str) -> str:
    return gold if "$" in gold or "\\boxed" in gold else f"${gold}$"


def timed(run: Callable[[], list[bool]]) -> tuple[list[bool], float]:
    """The verdicts and the rows per second."""
    started = time.perf_counter()
    verdicts = run()
    return verdicts, len(verdicts) / (time.perf_counter() - started)


def report(rows: Sequence[dict[str, Any]], ours: list[bool], theirs: list[bool]) -> None:
    """Print where the verdicts differ and which side the label takes."""
    differ: Counter[tuple[str, str]] = Counter()
    for row, one, other in zip(rows, ours, theirs, strict=True):
        if one != other:
            side = {one: "math", other: "math-verify"}.get(row.get("label"), "unknown")
            differ[(str(row.get("variant")), side)] += 1
    same = sum(one == other for one, other in zip(ours, theirs, strict=True))
    print(f"same verdict: {same} of {len(rows)}; where not, who agrees with the label:")
    for (variant, side), count in sorted(differ.items()):
        print(f"  {variant}: {side} {count}")


if __name__ == "__main__":
    main()
