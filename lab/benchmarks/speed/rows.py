"""Rows of results: what a comparison says, one JSON object a line."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from dph._base.files import write_text
from lab.benchmarks.speed.machine import machine_name
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.timing import Timing

KEY = ("bench", "case", "threads", "device", "dtype")
"""A new row replaces the old one that agrees with it in these."""


def make_row(
    bench: str,
    case: str,
    run: Run,
    *,
    shape: str,
    ours: Timing,
    peer: str,
    peer_timing: Timing,
    **more: object,
) -> Row:
    """A row: medians and ranges of both sides (seconds), and ratio = peer / ours."""
    return describe(
        bench,
        case,
        run,
        shape=shape,
        ours_s=ours.median,
        ours_range=ours.range,
        peer=peer,
        peer_s=peer_timing.median,
        peer_range=peer_timing.range,
        ratio=peer_timing.median / ours.median,
        repeats=len(ours.seconds),
        **more,
    )


def describe(bench: str, case: str, run: Run, *, shape: str, **measured: object) -> Row:
    """A row: what was measured, how, on what and when."""
    return {
        "bench": bench,
        "case": case,
        "shape": shape,
        "threads": run.threads,
        "device": run.device,
        "dtype": run.dtype,
        **{name: _rounded(x) for name, x in measured.items()},
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine_name(run.device),
    }


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; none if it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def merge_rows(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Both, where a new row takes the place of the old one with the same key."""
    merged = {tuple(row.get(name) for name in KEY): row for row in [*old, *new]}
    return list(merged.values())


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the file anew, atomically."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _rounded(value: object) -> object:
    """Four digits are more than a timing has."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return [_rounded(x) for x in value] if isinstance(value, list | tuple) else value
