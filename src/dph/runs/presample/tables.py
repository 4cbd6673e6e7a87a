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
from dph.records import Completion, GradedCompletion, Outcome, Verdict

EXPLORATION = pa.schema(
    [*((n, pa.string()) for n in ("problem_id", "prompt", "answer")), ("correct", pa.int32())]
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
"""Only in pools of trajectories: whether the policy wrote each token."""
REHEARSAL_FILE = "rehearsal.parquet"
UNGRADABLE = pa.schema([(n, pa.string()) for n in ("problem_id", "outcome", "reason")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ungradable:
    """A problem without a verdict: the outcome that says so, and the reason of its first sample."""

    problem_id: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalSample:
    """A correct answer of the initial policy, and its log-probs (nats) under that policy.

    Of a trajectory, ``written`` says which tokens the policy wrote; only these have log-probs. It
    includes the answers of tools, so that rehearsal runs no tool.
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


def rehearsal_table(rows: Sequence[RehearsalSample]) -> pa.Table:
    """Stored samples, with the column ``written`` if one of them is a trajectory."""
    acting = any(row.written is not None for row in rows)
    schema = REHEARSAL.append(WRITTEN) if acting else REHEARSAL
    plain = [{name: getattr(row, name) for name in schema.names} for row in rows]
    return pa.Table.from_pylist(plain, schema=schema)


def read_rehearsal(pool: Path) -> pa.Table:
    file = pool / REHEARSAL_FILE
    acting = WRITTEN.name in pq.read_schema(file).names
    return pq.read_table(file, schema=REHEARSAL.append(WRITTEN) if acting else REHEARSAL)


def rehearsal_sample(row: dict[str, Any]) -> RehearsalSample:
    lists = {name: tuple(value) for name, value in row.items() if isinstance(value, list)}
    return RehearsalSample(**{**row, **lists})


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

TRAJECTORIES = GRADED.append(WRITTEN).append(pa.field("prompt_ids", pa.list_(pa.int32())))
"""Columns of trajectories: also who wrote each token, and the prompt with the words of reset."""

_OF_COMPLETION = (
    *("problem_id", "sample_index", "text", "token_ids", "logprobs", "finished"),
    *("written", "prompt_ids"),
)
_ROWS = 1024
"""Rows held as Python objects at a time: as such, a token takes ten times the memory."""


def graded_table(groups: Sequence[Sequence[GradedCompletion]]) -> pa.Table:
    rows = [
        {name: getattr(one.completion, name) for name in _OF_COMPLETION} | one.verdict_columns()
        for group in groups
        for one in group
    ]
    acting = bool(rows) and rows[0]["written"] is not None
    return pa.Table.from_pylist(rows, schema=TRAJECTORIES if acting else GRADED)


def graded_schema(table: pa.Table) -> pa.Schema:
    return TRAJECTORIES if "written" in table.schema.names else GRADED


def graded_rows(table: pa.Table) -> Iterator[GradedCompletion]:
    rows = (row for batch in table.to_batches(max_chunksize=_ROWS) for row in batch.to_pylist())
    for row in rows:
        values = {name: row.get(name) for name in _OF_COMPLETION}
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        yield GradedCompletion(
            completion=Completion(**{**values, **lists}),
            verdict=Verdict(
                outcome=Outcome(row["outcome"]), reward=row["reward"], reason=row["reason"]
            ),
            style=row["style"],
        )
