"""The pool: what pre-sampling leaves behind, checked before it is used.

    pool/
      manifest.json        what it was made from, counts, SHA-256 of every file
      exploration.parquet  problem_id, prompt, answer, correct
      rehearsal.parquet    problem_id, sample_index, prompt_ids, completion_ids, ref_logprobs,
                           correct
      samples.parquet      every sample drawn with its verdict

``prompt`` and ``answer`` are JSON, so that chat messages and nested answers survive.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import PoolError
from dph.files import atomic_path, make_directory, sha256, write_json
from dph.presampling.manifest import FORMAT, Counts, Manifest, Rule, Source, read_manifest
from dph.records import Problem
from dph.rollout.graded_table import GRADED

SAMPLES = "samples.parquet"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalSample:
    """A correct answer of the initial policy, and its log-probs (nats) under that policy."""

    problem_id: str
    sample_index: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    ref_logprobs: tuple[float, ...]
    correct: int

    def __post_init__(self) -> None:
        if len(self.completion_ids) != len(self.ref_logprobs) or not self.completion_ids:
            raise PoolError(
                f"rehearsal sample of problem {self.problem_id!r}: {len(self.completion_ids)} "
                f"tokens but {len(self.ref_logprobs)} log-probs"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool in memory."""

    manifest: Manifest
    exploration: tuple[Problem, ...]
    rehearsal: tuple[RehearsalSample, ...]


def write_pool(
    path: Path,
    *,
    source: Source,
    rule: Rule,
    counts: Counts,
    exploration: Sequence[tuple[Problem, int]],
    rehearsal: Sequence[RehearsalSample],
    samples: Sequence[pa.Table],
) -> Manifest:
    """Write a pool atomically: either all of it is there afterwards, or nothing.

    ``samples`` come in the pieces they were drawn in, each of which becomes a row group.
    """
    require_free(path)
    make_directory(path.parent)
    with atomic_path(path) as directory:
        directory.mkdir()
        tables = {
            "exploration.parquet": _exploration_table(exploration),
            "rehearsal.parquet": _rehearsal_table(rehearsal),
        }
        for name, table in tables.items():
            pq.write_table(table, directory / name, compression="zstd")
        _write_pieces(directory / SAMPLES, samples)
        manifest = Manifest(
            format=FORMAT,
            source=source,
            rule=rule,
            counts=counts,
            files={name: sha256(directory / name) for name in (*tables, SAMPLES)},
        )
        write_json(directory / "manifest.json", manifest.model_dump(mode="json"))
    return manifest


def require_free(path: Path) -> None:
    """Refuse a place where a new pool would replace what is no pool.

    Raises:
        PoolError: ``path`` is a file, or a directory with files but without a manifest.
    """
    if path.is_dir():
        if not (path / "manifest.json").exists() and any(path.iterdir()):
            raise PoolError(
                f"{path} holds files but no pool (there is no manifest.json): a pool needs a new "
                "or an empty directory (presample.pool)"
            )
    elif path.exists():
        raise PoolError(f"the pool cannot be written to {path}: it is a file (presample.pool)")


def load_pool(path: str | Path) -> Pool:
    """Read a pool after comparing every file with its SHA-256.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    path = Path(path)
    manifest = read_manifest(path / "manifest.json")
    require_whole(path, manifest)
    exploration = pq.read_table(path / "exploration.parquet", schema=EXPLORATION).to_pylist()
    rehearsal = pq.read_table(path / "rehearsal.parquet", schema=REHEARSAL).to_pylist()
    return Pool(
        manifest=manifest,
        exploration=tuple(_problem(row) for row in exploration),
        rehearsal=tuple(rehearsal_sample(row) for row in rehearsal),
    )


def require_whole(path: Path, manifest: Manifest) -> None:
    """Compare every file of a pool with its SHA-256.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    for name, expected in manifest.files.items():
        file = path / name
        if not file.is_file():
            raise PoolError(
                f"the pool {path} is damaged: {name} is missing; remove the pool and pre-sample "
                "again"
            )
        if sha256(file) != expected:
            raise PoolError(
                f"the pool {path} is damaged: {name} is not the file that was written "
                "(SHA-256 differs); remove the pool and pre-sample again"
            )


def require_fit(pool_path: Path, found: Manifest, expected: Source, rule: Rule) -> None:
    """Refuse a pool that was made from something else.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    have, want = found.source.model_dump(), expected.model_dump()
    have["model"] = want["model"]  # a moved directory is the same model: the fingerprint decides
    have["engine"] = want["engine"]  # whoever drew, log-probs are the training forward's
    have.update(found.rule.model_dump())
    want.update(rule.model_dump())
    for key, value in want.items():
        if have[key] != value:
            raise PoolError(
                f"the pool {pool_path} does not fit this run: {key.replace('_', ' ')} was "
                f"{have[key]!r}, this run has {value!r}; pre-sample again into another directory "
                "or use the recipe that the pool was made with"
            )


def _write_pieces(path: Path, pieces: Sequence[pa.Table]) -> None:
    """Write one row group a piece: all of them as one list may pass 2^31 tokens.

    Each piece is laid out anew, so the bytes do not tell which ones came from a file.
    """
    with pq.ParquetWriter(path, GRADED, compression="zstd") as writer:
        for piece in pieces:
            columns = piece.cast(GRADED).combine_chunks().columns
            writer.write_table(pa.Table.from_arrays(columns, schema=GRADED))


def _exploration_table(rows: Sequence[tuple[Problem, int]]) -> pa.Table:
    plain = [
        {
            "problem_id": problem.problem_id,
            "prompt": _json(problem.prompt),
            "answer": _json(dict(problem.answer)),
            "correct": correct,
        }
        for problem, correct in rows
    ]
    return pa.Table.from_pylist(plain, schema=EXPLORATION)


def _rehearsal_table(rows: Sequence[RehearsalSample]) -> pa.Table:
    names = REHEARSAL.names
    return pa.Table.from_pylist(
        [{name: getattr(row, name) for name in names} for row in rows], schema=REHEARSAL
    )


def _problem(row: dict[str, Any]) -> Problem:
    prompt = json.loads(row["prompt"])
    return Problem(
        problem_id=row["problem_id"],
        prompt=prompt if isinstance(prompt, str) else tuple(prompt),
        answer=json.loads(row["answer"]),
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
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
