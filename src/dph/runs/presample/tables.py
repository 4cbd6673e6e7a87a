"""The tables of a pool: their columns, and rows to records and back.

``prompt`` and ``answer`` are JSON, so that chat messages and nested answers survive.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import PoolError
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.presample.diagnosis import Ungradable
from dph.tasks.problems import problem_columns

EXPLORATION = pa.schema(
    [
        ("problem_id", pa.string()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
        ("correct", pa.int32()),
    ]
)
REHEARSAL = pa.schema(
    [
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("completion_ids", pa.list_(pa.int32())),
        ("ref_logprobs", pa.list_(pa.float32())),
        ("correct", pa.int32()),
    ]
)
WRITTEN = pa.field("written", pa.list_(pa.bool_()))
"""Of trajectories alone: for each token whether the policy wrote it."""
REHEARSAL_FILE = "rehearsal.parquet"
UNGRADABLE = pa.schema(
    [("problem_id", pa.string()), ("outcome", pa.string()), ("reason", pa.string())]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalSample:
    """A correct answer of the initial policy, and its log-probs (nats) under that policy.

    Of a trajectory, ``written`` says which tokens the policy wrote; log-probs are of those. The
    answers of tools are part of it, so that rehearsal runs none.
    """

    problem_id: str
    sample_index: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    ref_logprobs: tuple[float, ...]
    correct: int
    written: tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        count = len(self.completion_ids)
        if self.written is not None:
            count = sum(self.written) if len(self.written) == count else 0
        if count != len(self.ref_logprobs) or not count:
            raise PoolError(
                f"rehearsal sample of problem {self.problem_id!r}: {count} "
                f"tokens but {len(self.ref_logprobs)} log-probs"
            )


def exploration_table(rows: Sequence[tuple[Problem, int]]) -> pa.Table:
    """Problems with the number of their correct samples."""
    plain = [{**problem_columns(problem), "correct": correct} for problem, correct in rows]
    return pa.Table.from_pylist(plain, schema=EXPLORATION)


def rehearsal_table(rows: Sequence[RehearsalSample]) -> pa.Table:
    """Stored samples; the column ``written`` is there where one of them is a trajectory."""
    acting = any(row.written is not None for row in rows)
    schema = REHEARSAL.append(WRITTEN) if acting else REHEARSAL
    plain = [{name: getattr(row, name) for name in schema.names} for row in rows]
    return pa.Table.from_pylist(plain, schema=schema)


def read_rehearsal(pool: Path) -> pa.Table:
    """The stored samples of a pool, with ``written`` where they are trajectories."""
    file = pool / REHEARSAL_FILE
    acting = WRITTEN.name in pq.read_schema(file).names
    return pq.read_table(file, schema=REHEARSAL.append(WRITTEN) if acting else REHEARSAL)


def ungradable_table(rows: Sequence[Ungradable]) -> pa.Table:
    """Problems without a verdict."""
    names = UNGRADABLE.names
    return pa.Table.from_pylist(
        [{name: str(getattr(row, name)) for name in names} for row in rows], schema=UNGRADABLE
    )


def rehearsal_sample(row: dict[str, Any]) -> RehearsalSample:
    """The sample of a row of ``rehearsal.parquet``."""
    return RehearsalSample(
        problem_id=row["problem_id"],
        sample_index=row["sample_index"],
        prompt_ids=tuple(row["prompt_ids"]),
        completion_ids=tuple(row["completion_ids"]),
        ref_logprobs=tuple(row["ref_logprobs"]),
        correct=row["correct"],
        written=None if row.get(WRITTEN.name) is None else tuple(row[WRITTEN.name]),
    )


def ungradable_problem(row: dict[str, Any]) -> Ungradable:
    """The record of a row of ``ungradable.parquet``."""
    return Ungradable(
        problem_id=row["problem_id"], outcome=Outcome(row["outcome"]), reason=row["reason"]
    )


GRADED = pa.schema(
    [
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("text", pa.string()),
        ("token_ids", pa.list_(pa.int32())),
        ("logprobs", pa.list_(pa.float32())),
        ("finished", pa.bool_()),
        ("outcome", pa.string()),
        ("reward", pa.float64()),
        ("reason", pa.string()),
        ("style", pa.string()),
    ]
)

TRAJECTORIES = GRADED.append(pa.field("written", pa.list_(pa.bool_()))).append(
    pa.field("prompt_ids", pa.list_(pa.int32()))
)
"""Columns where rows are trajectories: who wrote each token, and the prompt with reset's words."""

_ROWS = 1024
"""Rows held as Python objects at a time: as such, a token takes ten times the memory."""


def graded_table(groups: Sequence[Sequence[GradedCompletion]]) -> pa.Table:
    """All completions of all groups."""
    rows = [_row(g) for group in groups for g in group]
    acting = bool(rows) and rows[0]["written"] is not None
    return pa.Table.from_pylist(rows, schema=TRAJECTORIES if acting else GRADED)


def graded_schema(table: pa.Table) -> pa.Schema:
    """Columns of a table of answers, or of one of trajectories."""
    return TRAJECTORIES if "written" in table.schema.names else GRADED


def graded_rows(table: pa.Table) -> Iterator[GradedCompletion]:
    """The completions of a table, one by one."""
    rows = (row for batch in table.to_batches(max_chunksize=_ROWS) for row in batch.to_pylist())
    for row in rows:
        completion = Completion(
            problem_id=row["problem_id"],
            sample_index=row["sample_index"],
            token_ids=tuple(row["token_ids"]),
            logprobs=tuple(row["logprobs"]),
            finished=row["finished"],
            text=row["text"],
            written=_tuple(row.get("written")),
            prompt_ids=_tuple(row.get("prompt_ids")),
        )
        verdict = Verdict(
            outcome=Outcome(row["outcome"]), reward=row["reward"], reason=row["reason"]
        )
        yield GradedCompletion(completion=completion, verdict=verdict, style=row["style"])


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _row(graded: GradedCompletion) -> dict[str, Any]:
    completion, verdict = graded.completion, graded.verdict
    return {
        "problem_id": completion.problem_id,
        "sample_index": completion.sample_index,
        "text": completion.text,
        "token_ids": completion.token_ids,
        "logprobs": completion.logprobs,
        "finished": completion.finished,
        "outcome": verdict.outcome.value,
        "reward": verdict.reward,
        "reason": verdict.reason,
        "style": graded.style,
        "written": completion.written,
        "prompt_ids": completion.prompt_ids,
    }
