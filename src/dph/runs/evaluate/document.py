"""evaluation.json: what was measured of one model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from dph._base.files import atomic_path
from dph.errors import DataError
from dph.recipe import recipe_digest
from dph.records import Problem
from dph.tasks.problems import problem_columns, problem_of_columns
from dph.tasks.problems import problems_fingerprint
from collections.abc import Mapping, Sequence
from typing import Any
from dph.errors import DataError
from dph.runs.evaluate.intervals import RESAMPLES
from dph.runs.evaluate.pass_at_k import require_k_fits
from dph.runs.evaluate.retention import RETENTION_K
from dph.runs.evaluate.scores import SetScores, set_summary


# ``problems.parquet`` beside ``samples.parquet``: prompt and gold of every evaluated problem.
#
# Once a problem, not once an answer. A row is found by (set, problem_id).

PROBLEMS_FILE = "problems.parquet"
PROBLEMS_SCHEMA = 1
PROBLEMS = pa.schema([(n, pa.string()) for n in ("set", "problem_id", "prompt", "answer")])
_DIGEST, _VERSION = b"dph.digest", b"dph.schema"


def keep_problems(path: Path, sets: Mapping[str, Sequence[Problem]]) -> None:
    """Write the problems of every set, unless they are there already."""
    digest = recipe_digest({name: problems_fingerprint(sets[name]) for name in sets}, PROBLEMS_SCHEMA)
    if path.exists() and _metadata(path).get(_DIGEST) == digest.encode():
        return
    rows = [
        {"set": name, **problem_columns(problem)}
        for name, problems in sets.items()
        for problem in problems
    ]
    schema = PROBLEMS.with_metadata({_DIGEST: digest.encode(), _VERSION: str(PROBLEMS_SCHEMA).encode()})
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
    if version != str(PROBLEMS_SCHEMA):
        raise DataError(f"{path} has schema {version}, this version of dph reads {PROBLEMS_SCHEMA}")
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


SCHEMA = 2


def evaluation_document(
    model: str,
    samples: int,
    sets: Mapping[str, SetScores],
    base: Mapping[str, SetScores] | None,
    ks: Sequence[int],
    seed: int,
    *,
    retention_k: int = RETENTION_K,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """The content of evaluation.json.

    ``base`` are the initial policy's scores on the same sets, for keep and explore; give a base
    model its own scores. None leaves keep and explore unknown.

    Raises:
        DataError: a set has other samples than ``samples``, or the base lacks a set or has other
            problems in it.
        SettingsError: a k is not between 1 and ``samples``.
    """
    for k in ks:
        require_k_fits(k, samples)
    summaries = {}
    for name, scores in sets.items():
        if scores.samples != samples:
            raise DataError(f"set {name!r} has {scores.samples} samples a problem, not {samples}")
        if base is not None and name not in base:
            raise DataError(f"the base model was not evaluated on set {name!r}")
        summaries[name] = set_summary(
            scores,
            ks=ks,
            seed=seed,
            base=base[name] if base is not None else None,
            retention_k=retention_k,
            resamples=resamples,
        )
    return {"schema": SCHEMA, "model": model, "samples": samples, "sets": summaries}
