"""A prompt of a store, its answers and their distributions: a record, and a row of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dph.errors import PoolError
from dph.records import Problem
from dph.tasks.problem_columns import problem_columns, problem_of_columns

GROUPS = pa.schema(
    [
        ("problem_id", pa.string()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
        ("prompt_ids", pa.list_(pa.int32())),
        ("texts", pa.list_(pa.string())),
        ("finished", pa.list_(pa.bool_())),
        ("completion_ids", pa.list_(pa.list_(pa.int32()))),
        ("ref_logprobs", pa.list_(pa.list_(pa.float32()))),
        ("token_ids", pa.list_(pa.list_(pa.int32()))),
        ("logprobs", pa.list_(pa.list_(pa.float16()))),
        ("log_tails", pa.list_(pa.float16())),
    ]
)
MASS_ERROR = 0.02
"""What a distribution in float16 may be away from 1."""
_ROWS = 256
"""Groups held as Python objects at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A prompt, the answers to it, and one distribution for each node where an answer goes on.

    ``token_ids``, ``logprobs`` and ``log_tails`` belong to ``answer_trie(completions).inner``, in
    that order: answers that begin alike share their distributions.
    """

    problem: Problem
    prompt_ids: tuple[int, ...]
    texts: tuple[str, ...]
    finished: tuple[bool, ...]
    completions: tuple[tuple[int, ...], ...]
    ref_logprobs: tuple[tuple[float, ...], ...]
    token_ids: tuple[tuple[int, ...], ...]
    logprobs: tuple[NDArray[np.float64], ...]
    """Nats; float16 in the file."""
    log_tails: tuple[float, ...]

    @property
    def answered(self) -> tuple[str | None, ...]:
        """The texts; None for an answer that was cut off, which is no answer."""
        return tuple(t if done else None for t, done in zip(self.texts, self.finished, strict=True))


def groups_table(groups: Sequence[StoredGroup]) -> pa.Table:
    """One row for each group."""
    return pa.Table.from_pylist([_row(group) for group in groups], schema=GROUPS)


def groups_of(table: pa.Table) -> Iterator[StoredGroup]:
    """The groups of a table, one by one."""
    for batch in table.to_batches(max_chunksize=_ROWS):
        for row in batch.to_pylist():
            yield _group(row)


def require_whole_distributions(groups: Sequence[StoredGroup]) -> None:
    """Refuse sums over some tokens without the mass of all others: they are no divergence.

    Raises:
        PoolError: a distribution adds up to less or more than float16 can be wrong by.
    """
    for group in groups:
        if not group.logprobs:
            continue
        starts = np.cumsum([0, *map(len, group.logprobs[:-1])])
        mass = np.add.reduceat(np.exp(np.concatenate(group.logprobs)), starts)
        mass += np.exp(group.log_tails)
        worst = int(np.argmax(np.abs(mass - 1)))
        if not abs(mass[worst] - 1) <= MASS_ERROR:
            raise PoolError(
                f"a next-token distribution of the answers to {group.problem.problem_id!r} adds up "
                f"to {mass[worst]:.3f}, not to 1: stored tokens need the mass of all others, the "
                "tail, beside them"
            )


def problems_of(table: pa.Table) -> Iterator[Problem]:
    """The prompts of a table alone."""
    for row in table.select(["problem_id", "prompt", "answer"]).to_pylist():
        yield problem_of_columns(row)


def _row(group: StoredGroup) -> dict[str, Any]:
    return {
        **problem_columns(group.problem),
        "prompt_ids": group.prompt_ids,
        "texts": group.texts,
        "finished": group.finished,
        "completion_ids": group.completions,
        "ref_logprobs": group.ref_logprobs,
        "token_ids": group.token_ids,
        "logprobs": [np.asarray(numbers).astype(np.float16) for numbers in group.logprobs],
        "log_tails": np.asarray(group.log_tails).astype(np.float16),
    }


def _group(row: dict[str, Any]) -> StoredGroup:
    return StoredGroup(
        problem=problem_of_columns(row),
        prompt_ids=tuple(row["prompt_ids"]),
        texts=tuple(row["texts"]),
        finished=tuple(row["finished"]),
        completions=tuple(map(tuple, row["completion_ids"])),
        ref_logprobs=tuple(map(tuple, row["ref_logprobs"])),
        token_ids=tuple(map(tuple, row["token_ids"])),
        logprobs=tuple(np.array(numbers, dtype=np.float64) for numbers in row["logprobs"]),
        log_tails=tuple(float(tail) for tail in row["log_tails"]),
    )
