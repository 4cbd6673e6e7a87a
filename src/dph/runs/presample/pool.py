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

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory, sha256, write_json
from dph.errors import DataError, PoolError
from dph.records import Problem
from dph.runs.directory import MANIFEST, is_made
from dph.runs.presample.diagnosis import Ungradable
from dph.runs.presample.manifest import (
    FORMAT,
    Counts,
    Manifest,
    Rule,
    Source,
    first_difference,
    policy_fields,
    read_manifest,
    require_files_whole,
)
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
from dph.tasks.problems import problem_of_columns

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


# One process at a time makes a pool, whatever happens to the pools beside it.


@contextlib.contextmanager
def only_pool_writer(path: Path, *, what: str = "pool (presample.pool)") -> Iterator[None]:
    """Hold the pool ``path`` for this process; whoever comes second is refused.

    The lock is on a file next to the pool, ``.<name>.lock``: the pool itself appears by a rename,
    so there is nothing in it to hold on to. The operating system drops the lock when the process
    ends, however that happens. The file goes at the end; one that a killed process left is in
    nobody's way.

    ``what`` is made there, and the setting that says where.

    Raises:
        DataError: another process holds the pool, or its parent directory cannot be written.
    """
    lock = make_directory(path.parent) / f".{path.name}.lock"
    with contextlib.ExitStack() as held:
        while not _lock(lock, path, what, held):
            pass  # its last holder removed the file after it was opened here: take the new one
        held.callback(lock.unlink, missing_ok=True)
        yield


def _lock(lock: Path, path: Path, what: str, held: contextlib.ExitStack) -> bool:
    """Lock the file, which is closed with ``held``; false if it is not the one at ``lock`` now."""
    kind, _, setting = what.partition(" ")
    file = held.enter_context(lock.open("a", encoding="utf-8"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataError(
            f"another dph process is making the {kind} {path}; wait for it, or choose another "
            f"directory {setting}"
        ) from error
    try:
        return os.path.samestat(os.fstat(file.fileno()), lock.stat())
    except FileNotFoundError:
        return False


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
        write_json(directory / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def require_free(path: Path) -> None:
    """Refuse a place where a new pool would replace something else.

    Raises:
        PoolError: ``path`` is a file, or a directory with files but without a manifest.
    """
    if path.is_dir():
        if not is_made(path) and any(path.iterdir()):
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
    manifest = read_manifest(path / MANIFEST)
    require_whole(path, manifest)
    exploration = pq.read_table(path / "exploration.parquet", schema=EXPLORATION).to_pylist()
    rehearsal = pq.read_table(path / "rehearsal.parquet", schema=REHEARSAL).to_pylist()
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
            f"settings of this run splits its samples again without drawing, or use the recipe "
            f"that the pool was split with"
        )


def require_source(pool_path: Path, found: Manifest, expected: Source) -> None:
    """Refuse a pool whose samples were drawn or graded in another way.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    have, want = found.source.model_dump(), expected.model_dump()
    have["model"] = want["model"]  # a moved directory is the same model: the fingerprint decides
    have["engine"] = want["engine"]  # whoever drew, log-probs are the training forward's
    for part in (have, want):
        known = part.pop("verifier_settings")
        part.update({f"verifier {key}": value for key, value in known.items()})
    if difference := first_difference(have, want):
        raise PoolError(
            f"the pool {pool_path} does not fit this run: {difference}; pre-sample again into "
            "another directory or use the recipe that the pool was made with"
        )


# Whether stored log-probs are those of a policy: what a store of another run has to share.


def require_same_policy(
    path: Path,
    manifest: Manifest,
    *,
    tokenizer_fingerprint: str,
    temperature: float,
    dtype: str,
    model_fingerprint: str | None = None,
    also: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Refuse a pool whose log-probs another policy, temperature or precision gave.

    Its problems, their grading and its rule are its own affair. ``model_fingerprint`` is None where
    the weights have moved on, or have other names than the model that was sampled. ``also`` are
    further fields of the source that have to be the same.

    Raises:
        PoolError: names what differs, both values, and what to do.
    """
    wanted = policy_fields(
        tokenizer_fingerprint=tokenizer_fingerprint,
        temperature=temperature,
        dtype=dtype,
        model_fingerprint=model_fingerprint,
    )
    source = manifest.source.model_copy(update={**wanted, **also})
    require_fit(path, manifest, source, manifest.rule)
