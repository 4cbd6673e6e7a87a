"""The pool: what pre-sampling leaves behind, checked before it is used.

    pool/
      manifest.json        what it was made from, counts, SHA-256 of every file
      exploration.parquet  problem_id, prompt, answer, correct
      rehearsal.parquet    problem_id, sample_index, prompt_ids, completion_ids, ref_logprobs,
                           correct
      ungradable.parquet   problem_id, outcome, reason
      samples.parquet      every sample drawn with its verdict

What the columns hold stands in docs/artefacts.md.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory, sha256, write_json
from dph.errors import PoolError
from dph.records import Problem
from dph.runs.presample.differences import first_difference
from dph.runs.presample.grades import Ungradable
from dph.runs.presample.manifest import FORMAT, Counts, Manifest, Rule, Source, read_manifest
from dph.runs.presample.tables import (
    EXPLORATION,
    REHEARSAL,
    UNGRADABLE,
    RehearsalSample,
    exploration_table,
    rehearsal_sample,
    rehearsal_table,
    ungradable_problem,
    ungradable_table,
    write_samples,
)
from dph.runs.presample.wholeness import require_files_whole
from dph.tasks.problem_columns import problem_of_columns

__all__ = [
    "SAMPLES",
    "Pool",
    "RehearsalSample",
    "load_pool",
    "require_fit",
    "require_free",
    "require_rule",
    "require_source",
    "require_whole",
    "write_pool",
]

logger = logging.getLogger(__name__)

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
    rule: Rule,
    counts: Counts,
    exploration: Sequence[tuple[Problem, int]],
    rehearsal: Sequence[RehearsalSample],
    ungradable: Sequence[Ungradable] = (),
    samples: Sequence[pa.Table],
) -> Manifest:
    """Write a pool atomically: either all of it is there afterwards, or what was there before.

    ``samples`` come in the pieces they were drawn in, each of which becomes a row group.
    """
    require_free(path)
    make_directory(path.parent)
    with atomic_path(path) as directory:
        directory.mkdir()
        tables = {
            "exploration.parquet": exploration_table(exploration),
            "rehearsal.parquet": rehearsal_table(rehearsal),
            "ungradable.parquet": ungradable_table(ungradable),
        }
        for name, table in tables.items():
            pq.write_table(table, directory / name, compression="zstd")
        write_samples(directory / SAMPLES, samples)
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
    """Refuse a place where a new pool would replace something else.

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
    ungradable = []
    if "ungradable.parquet" in manifest.files:  # not in format 1
        ungradable = pq.read_table(path / "ungradable.parquet", schema=UNGRADABLE).to_pylist()
    return Pool(
        manifest=manifest,
        exploration=tuple(problem_of_columns(row) for row in exploration),
        rehearsal=tuple(rehearsal_sample(row) for row in rehearsal),
        ungradable=tuple(ungradable_problem(row) for row in ungradable),
    )


def require_whole(path: Path, manifest: Manifest) -> None:
    """Compare every file of a pool with its SHA-256.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    require_files_whole(path, manifest.files, what="pool")


def require_fit(pool_path: Path, found: Manifest, expected: Source, rule: Rule) -> None:
    """Refuse a pool that was made from something else, or split in another way.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    require_source(pool_path, found, expected)
    require_rule(pool_path, found, rule)


def require_rule(pool_path: Path, found: Manifest, rule: Rule) -> None:
    """Refuse a pool that was split in another way.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    if difference := first_difference(found.rule.model_dump(), rule.model_dump()):
        raise PoolError(
            f"the pool {pool_path} does not fit this run: {difference}; `dph presample` with the "
            "settings of this run splits its samples again and draws nothing, or use the recipe "
            "that the pool was split with"
        )


def require_source(pool_path: Path, found: Manifest, expected: Source) -> None:
    """Refuse a pool whose samples were drawn or graded in another way.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    have, want = found.source.model_dump(), expected.model_dump()
    have["model"] = want["model"]  # a moved directory is the same model: the fingerprint decides
    have["engine"] = want["engine"]  # whoever drew, log-probs are the training forward's
    settings = have.pop("verifier_settings"), want.pop("verifier_settings")
    if settings[0] is None and settings[1] is not None:
        logger.warning(
            "the pool %s is of format 1, which does not say the verifier's settings: they are "
            "taken to be those of this run",
            pool_path,
        )
    elif None not in settings:
        have, want = (
            {**part, **{f"verifier {key}": value for key, value in known.items()}}
            for part, known in zip((have, want), settings, strict=True)
        )
    if difference := first_difference(have, want):
        raise PoolError(
            f"the pool {pool_path} does not fit this run: {difference}; pre-sample again into "
            "another directory or use the recipe that the pool was made with"
        )
