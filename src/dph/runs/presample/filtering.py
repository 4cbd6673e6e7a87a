"""Problems by the rate at which the initial policy solves them, for any trainer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph._base.files.atomic import atomic_path, write_json_lines
from dph.errors import PoolError, SettingsError
from dph.records import Outcome, Problem
from dph.runs.presample.manifest import read_manifest
from dph.runs.presample.pool import SAMPLES

RATE_COLUMNS = ("pass_rate", "correct", "samples")


def problems_by_rate(
    pool: Path, problems: Sequence[Problem], *, least: int, most: int
) -> list[dict[str, Any]]:
    """Rows of the problems with ``least`` to ``most`` right samples, in the problems' order.

    A row has the fields of the problem's own file, ``pass_rate``, ``correct`` and ``samples``.
    """
    if not 0 <= least <= most:
        raise SettingsError(f"--right takes LEAST-MOST with 0 <= LEAST <= MOST, got {least}-{most}")
    # The sample after the counted ones decides alone whether a problem is rehearsed.
    counted = pc.field("sample_index") < read_manifest(pool).source.answers
    graded = pq.read_table(pool / SAMPLES, columns=["problem_id", "outcome"], filters=counted)
    ids, outcomes = (graded[name].to_pylist() for name in graded.column_names)
    samples = Counter(ids)
    correct = Counter(
        each for each, outcome in zip(ids, outcomes, strict=True) if outcome == Outcome.CORRECT
    )
    rows = [
        _row(problem, correct[problem.problem_id], samples[problem.problem_id])
        for problem in problems
        if samples[problem.problem_id] and least <= correct[problem.problem_id] <= most
    ]
    if not rows:
        raise PoolError(
            f"no problem has {least} to {most} right answers of {max(samples.values(), default=0)}"
        )
    return rows


def _row(problem: Problem, correct: int, samples: int) -> dict[str, Any]:
    if taken := [name for name in RATE_COLUMNS if name in problem.answer]:
        raise SettingsError(
            f"problem {problem.problem_id!r} has a field {taken[0]!r}, which would be overwritten"
        )
    prompt = problem.prompt if isinstance(problem.prompt, str) else list(problem.prompt)
    rate = dict(zip(RATE_COLUMNS, (correct / samples, correct, samples), strict=True))
    return {"problem_id": problem.problem_id, "prompt": prompt, **problem.answer, **rate}


def write_problems(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the rows as a ``.jsonl`` or ``.parquet`` file, which appears whole or not at all."""
    if path.suffix == ".parquet":
        with atomic_path(path) as part:
            pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), part)
    else:
        write_json_lines(path, rows, ascii_only=False)
