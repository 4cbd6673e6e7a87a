"""Graded completions as a table: one row for each sample, in the order of problems and samples."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dph.records import Completion, GradedCompletion, Outcome, Verdict

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
