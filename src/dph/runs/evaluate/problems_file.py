"""``problems.parquet`` beside ``samples.parquet``: prompt and gold of every evaluated problem.

Once a problem, not once an answer. A row is found by (set, problem_id).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path
from dph.errors import DataError
from dph.recipe import recipe_digest
from dph.records import Problem
from dph.tasks.problem_columns import problem_columns, problem_of_columns
from dph.tasks.problems import problems_fingerprint

PROBLEMS_FILE = "problems.parquet"
SCHEMA = 1
PROBLEMS = pa.schema([(n, pa.string()) for n in ("set", "problem_id", "prompt", "answer")])
_DIGEST, _VERSION = b"dph.digest", b"dph.schema"


def keep_problems(path: Path, sets: Mapping[str, Sequence[Problem]]) -> None:
    """Write the problems of every set, unless they are there already."""
    digest = recipe_digest({name: problems_fingerprint(sets[name]) for name in sets}, SCHEMA)
    if path.exists() and _metadata(path).get(_DIGEST) == digest.encode():
        return
    rows = [
        {"set": name, **problem_columns(problem)}
        for name, problems in sets.items()
        for problem in problems
    ]
    schema = PROBLEMS.with_metadata({_DIGEST: digest.encode(), _VERSION: str(SCHEMA).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary, compression="zstd")


def read_kept_problems(path: Path) -> dict[tuple[str, str], Problem]:
    """The problems by set and id; none where an earlier version left no such file.

    Raises:
        DataError: the file is damaged, or of a later version.
    """
    if not path.exists():
        return {}
    version = _metadata(path).get(_VERSION, b"none").decode()
    if version != str(SCHEMA):
        raise DataError(f"{path} has schema {version}, this version of dph reads {SCHEMA}")
    try:
        rows = pq.read_table(path).to_pylist()
        return {(row["set"], row["problem_id"]): problem_of_columns(row) for row in rows}
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error}") from error


def _metadata(path: Path) -> Mapping[bytes, bytes]:
    try:
        return pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is damaged: {error}; remove it and evaluate again") from error
