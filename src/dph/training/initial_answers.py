"""Answers of the initial policy, drawn once and kept: where later policies are compared with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import DataError
from dph.files import atomic_path

INITIAL_FILE = "progress_initial.parquet"
_COLUMNS = pa.schema(
    [
        ("set", pa.string()),
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("token_ids", pa.list_(pa.int32())),
    ]
)

Answers = Mapping[str, Sequence[Sequence[tuple[int, ...]]]]
"""By set, for each of its problems in order, the tokens of some answers."""


def write_initial_answers(
    path: Path, answers: Answers, problem_ids: Mapping[str, Sequence[str]]
) -> None:
    """Write the answers to the problems of every set, whole or not at all."""
    rows = [
        {"set": name, "problem_id": problem, "sample_index": index, "token_ids": ids}
        for name, groups in answers.items()
        for problem, group in zip(problem_ids[name], groups, strict=True)
        for index, ids in enumerate(group)
    ]
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=_COLUMNS), temporary, compression="zstd")


def read_initial_answers(path: Path, problem_ids: Mapping[str, Sequence[str]]) -> Answers | None:
    """The answers to the problems of every set; None where there is no such file.

    Raises:
        DataError: it is damaged, or of other problems.
    """
    if not path.exists():
        return None
    try:
        rows = pq.read_table(path, schema=_COLUMNS).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    found: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for row in rows:
        found.setdefault((row["set"], row["problem_id"]), []).append(tuple(row["token_ids"]))
    try:
        return {
            name: [found[name, problem] for problem in problems]
            for name, problems in problem_ids.items()
        }
    except KeyError as error:
        raise DataError(f"{path} has no answer to {error.args[0]}; remove it to go on") from error
