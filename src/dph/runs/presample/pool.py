"""The pool: what pre-sampling leaves behind, checked before it is used.

    pool/
      manifest.json        what it was made from, counts, SHA-256 of every file
      exploration.parquet  problem_id, prompt, answer, correct
      rehearsal.parquet    problem_id, sample_index, prompt_ids, completion_ids, ref_logprobs,
                           correct; of trajectories also written
      ungradable.parquet   problem_id, outcome, reason
      samples.parquet      every sample drawn with its verdict

What the columns hold stands in docs/files.md.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph._base.files import atomic_path, write_json_lines
from dph.errors import PoolError, SettingsError
from dph.records import Outcome, Problem
from dph.runs.presample.diagnosis import Ungradable
from dph.runs.presample.making import require_free, write_answers
from dph.runs.presample.manifest import (
    Manifest,
    Rule,
    Source,
    ValueSource,
    read_manifest,
    require_whole,
)
from dph.runs.presample.tables import (
    EXPLORATION,
    GRADED,
    REHEARSAL_FILE,
    UNGRADABLE,
    RehearsalSample,
    exploration_table,
    graded_schema,
    read_rehearsal,
    rehearsal_sample,
    rehearsal_table,
    ungradable_problem,
    ungradable_table,
)
from dph.tasks.problems import problem_of_columns, problem_row

SAMPLES = "samples.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool in memory."""

    manifest: Manifest
    exploration: tuple[Problem, ...]
    rehearsal: tuple[RehearsalSample, ...]
    ungradable: tuple[Ungradable, ...] = ()


def write_pool(
    path: Path,
    *,
    source: Source,
    grading: ValueSource,
    rule: Rule,
    counts: Mapping[str, Any],
    exploration: Sequence[tuple[Problem, int]],
    rehearsal: Sequence[RehearsalSample],
    ungradable: Sequence[Ungradable] = (),
    samples: Sequence[pa.Table],
) -> Manifest:
    """Write a pool atomically: either all of it is there afterwards, or what was there before.

    ``samples`` come in the pieces they were drawn in; ``counts`` are those of the split.
    """
    require_free(path)
    stored = rehearsal_table(rehearsal)
    return write_answers(
        path,
        {
            "exploration.parquet": (EXPLORATION, [exploration_table(exploration)]),
            REHEARSAL_FILE: (stored.schema, [stored]),
            "ungradable.parquet": (UNGRADABLE, [ungradable_table(ungradable)]),
            SAMPLES: (graded_schema(samples[0]) if samples else GRADED, samples),
        },
        source=source,
        values=grading,
        rule=rule,
        counts={**counts, **_sizes(samples)},
    )


def _sizes(samples: Sequence[pa.Table]) -> dict[str, int]:
    tokens = (pc.sum(pc.list_value_length(piece["token_ids"])).as_py() or 0 for piece in samples)
    return {
        "answers": sum(piece.num_rows for piece in samples),
        "tokens": sum(tokens),
        "cut_off": sum(pc.sum(pc.invert(piece["finished"])).as_py() or 0 for piece in samples),
    }


def load_pool(path: str | Path) -> Pool:
    """Read a pool after comparing every file with its SHA-256.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    path = Path(path)
    manifest = read_manifest(path)
    require_whole(path, manifest)
    exploration = pq.read_table(path / "exploration.parquet", schema=EXPLORATION).to_pylist()
    ungradable = pq.read_table(path / "ungradable.parquet", schema=UNGRADABLE).to_pylist()
    return Pool(
        manifest=manifest,
        exploration=tuple(problem_of_columns(row) for row in exploration),
        rehearsal=tuple(map(rehearsal_sample, read_rehearsal(path).to_pylist())),
        ungradable=tuple(ungradable_problem(row) for row in ungradable),
    )


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
    rate = dict(zip(RATE_COLUMNS, (correct / samples, correct, samples), strict=True))
    return {**problem_row(problem), **rate}


def write_problems(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the rows as a ``.jsonl`` or ``.parquet`` file, which appears whole or not at all."""
    if path.suffix == ".parquet":
        with atomic_path(path) as part:
            pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), part)
    else:
        write_json_lines(path, rows, ascii_only=False)
