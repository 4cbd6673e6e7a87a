"""Answers of the initial policy, drawn once and kept: where later policies are compared with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path
from dph.errors import DataError

INITIAL_FILE = "progress_initial.parquet"
SCHEMA = 1
_COLUMNS = pa.schema(
    [
        ("set", pa.string()),
        ("problem_id", pa.string()),
        ("sample_index", pa.int32()),
        ("token_ids", pa.list_(pa.int32())),
    ]
)
_DIGEST, _VERSION = b"dph.digest", b"dph.schema"

Answers = Mapping[str, Sequence[Sequence[tuple[int, ...]]]]
"""By set, for each of its problems in order, the tokens of some answers."""


def write_initial_answers(
    path: Path, answers: Answers, problem_ids: Mapping[str, Sequence[str]], *, digest: str
) -> None:
    """Write the answers to the problems of every set, whole or not at all.

    ``digest`` names what they were drawn with.
    """
    schema = _COLUMNS.with_metadata({_DIGEST: digest.encode(), _VERSION: str(SCHEMA).encode()})
    rows = [
        {"set": name, "problem_id": problem, "sample_index": index, "token_ids": ids}
        for name, groups in answers.items()
        for problem, group in zip(problem_ids[name], groups, strict=True)
        for index, ids in enumerate(group)
    ]
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary, compression="zstd")


def read_initial_answers(
    path: Path, problem_ids: Mapping[str, Sequence[str]], *, digest: str
) -> Answers | None:
    """The answers to the problems of every set; None where there are none with this digest.

    Raises:
        DataError: the file is damaged.
    """
    if not path.exists():
        return None
    try:
        table = pq.read_table(path)
        if (table.schema.metadata or {}).get(_DIGEST) != digest.encode():
            return None
        found: dict[tuple[str, str], list[tuple[int, ...]]] = {}
        for row in table.to_pylist():
            found.setdefault((row["set"], row["problem_id"]), []).append(tuple(row["token_ids"]))
        return {
            name: [found[name, problem] for problem in problems]
            for name, problems in problem_ids.items()
        }
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{path} is damaged: {error}; remove it to go on") from error
