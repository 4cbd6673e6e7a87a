"""A store on disk: written whole, checked before it is used, and read as what an anchor rehearses.

    stores/<name>/
      manifest.json   what it was made from, counts, SHA-256 of every file
      groups.parquet  a row for each prompt: its answers, and next-token distributions in float16
      values.parquet  a row for each answer: its class, agreement and correctness (where they were
                      asked for)

What the columns hold stands in docs/artefacts.md.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory, sha256, write_json
from dph.errors import PoolError
from dph.runs.directory import MANIFEST, is_made
from dph.runs.presample.manifest import Source, first_difference, policy_fields, require_files_whole
from dph.runs.presample.stores.groups import (
    GROUPS,
    StoredGroup,
    groups_of,
    require_whole_distributions,
)
from dph.runs.presample.stores.manifest import (
    FORMAT,
    StoreCounts,
    StoreManifest,
    StoreSource,
    ValueSource,
    read_store_manifest,
)
from dph.runs.presample.stores.targets import chosen_answers, tilted_answers
from dph.runs.presample.stores.values import VALUES, Valued, values_by_prompt
from dph.runs.presample.stores.weights import WEIGHTS, ValuedAnswers
from dph.runs.presample.tables import DistributionSample

GROUPS_FILE, VALUES_FILE = "groups.parquet", "values.parquet"


def write_store(
    path: Path,
    *,
    source: StoreSource,
    groups: Sequence[pa.Table],
    values: pa.Table | None = None,
    value_source: ValueSource | None = None,
    about: Mapping[str, Any],
) -> StoreManifest:
    """Write a store atomically: all of it is there afterwards, or what was there before.

    ``groups`` come in the pieces they were drawn in, each of which becomes a row group. ``about``
    are the counts but for sizes in bytes.
    """
    make_directory(path.parent)
    with atomic_path(path) as directory:
        directory.mkdir()
        names = [GROUPS_FILE]
        with pq.ParquetWriter(directory / GROUPS_FILE, GROUPS, compression="zstd") as writer:
            for piece in groups:
                columns = piece.cast(GROUPS).combine_chunks().columns
                writer.write_table(pa.Table.from_arrays(columns, schema=GROUPS))
        if values is not None:
            pq.write_table(values, directory / VALUES_FILE, compression="zstd")
            names.append(VALUES_FILE)
        size = sum((directory / name).stat().st_size for name in names)
        manifest = StoreManifest(
            format=FORMAT,
            source=source,
            values=value_source,
            counts=StoreCounts(bytes_per_token=round(size / about["tokens"], 2), **about),
            files={name: sha256(directory / name) for name in names},
        )
        write_json(directory / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def load_store(
    path: str | Path,
    *,
    tilt: float = 0.0,
    values: str = "agreement",
    targets: str = "distributions",
) -> tuple[DistributionSample, ...]:
    """The answers of a store with the distributions to rehearse, after comparing every hash.

    Args:
        path: the store's directory.
        tilt: strength of the tilt; 0 gives the initial policy's own distributions.
        values: of the answers, one of ``WEIGHTS``; read only with a tilt or answers as targets.
        targets: ``distributions``, or ``answers``: those of weight 1, token by token as they are.

    Raises:
        PoolError: a file is missing or is not the one that was written, a distribution is without
            its tail, or the store does not hold the values that are needed, or no answer of them.
    """
    path = Path(path)
    manifest = read_store_manifest(path / MANIFEST)
    require_whole_store(path, manifest)
    groups = stored_groups(path)
    require_whole_distributions(groups)
    if targets == "answers":
        weights = stored_weights(path, manifest, values, groups)
        return _chosen(path, groups, weights, values)
    if not tilt > 0:
        return tuple(sample for group in groups for sample in tilted_answers(group, None, tilt))
    weights = stored_weights(path, manifest, values, groups)
    return tuple(
        sample
        for group in groups
        for sample in tilted_answers(group, weights[group.problem.problem_id], tilt)
    )


def _chosen(
    path: Path, groups: Sequence[StoredGroup], weights: Mapping[str, Sequence[float]], values: str
) -> tuple[DistributionSample, ...]:
    found = tuple(
        sample
        for group in groups
        for sample in chosen_answers(group, weights[group.problem.problem_id])
    )
    if not found:
        raise PoolError(
            f"the store {path}: no answer to any prompt has the value 1 (values = {values!r}), so "
            "there is nothing to learn: draw more answers, or ask other prompts"
        )
    return found


def read_groups(path: Path) -> list[pa.Table]:
    """The groups in the pieces that they were drawn in."""
    with pq.ParquetFile(path / GROUPS_FILE) as file:
        return [file.read_row_group(index) for index in range(file.num_row_groups)]


def stored_groups(path: Path) -> list[StoredGroup]:
    """The prompts of a store with their answers."""
    return list(groups_of(pq.read_table(path / GROUPS_FILE, schema=GROUPS)))


def stored_values(path: Path) -> dict[str, list[Valued]]:
    """Values of the answers to each prompt, by its id.

    Raises:
        PoolError: the answers of this store were neither compared nor graded.
    """
    if not (path / VALUES_FILE).exists():
        raise PoolError(
            f"the answers of the store {path} were not compared with each other: `dph presample` "
            f"does it without drawing"
        )
    return values_by_prompt(pq.read_table(path / VALUES_FILE, schema=VALUES))


def stored_weights(
    path: Path, manifest: StoreManifest, values: str, groups: Sequence[StoredGroup]
) -> dict[str, list[float]]:
    """The weight of each answer, by the prompt's id.

    Raises:
        PoolError: the store does not hold these values.
    """
    known = stored_values(path) if manifest.values is not None else {}
    kind = "graded" if values == "correct" else "compared"
    if manifest.values is None or not getattr(manifest.values, f"{kind}_by"):
        raise PoolError(
            f"values = {values!r} needs answers that were {kind}, those of the store {path} were "
            "not: `dph presample` does it without drawing, or set tilt = 0 and "
            "targets = 'distributions'"
        )
    for problem_id, own in known.items():
        if values == "correct" and all(value.correct is None for value in own):
            raise PoolError(
                f"the store {path}: no answer to {problem_id!r} was graded, so there is nothing to "
                "learn from: set values = 'agreement' or tilt = 0"
            )
    return {
        group.problem.problem_id: WEIGHTS[values](
            ValuedAnswers(
                problem_id=group.problem.problem_id,
                values=known[group.problem.problem_id],
                texts=group.texts,
                seed=manifest.source.seed,
            )
        )
        for group in groups
    }


def require_free_place(path: Path, name: str) -> None:
    """Refuse a place where a new store would replace something else.

    Raises:
        PoolError: ``path`` is a file, a pool, or a directory with files but without a manifest.
    """
    if path.is_dir():
        if not is_made(path) and any(path.iterdir()):
            raise PoolError(
                f"{path} holds files but no store (there is no manifest.json): a store needs a new "
                f"or an empty directory (stores.{name}.place)"
            )
    elif path.exists():
        raise PoolError(
            f"the store cannot be written to {path}: it is a file (stores.{name}.place)"
        )


def require_store_source(path: Path, found: StoreManifest, expected: StoreSource) -> None:
    """Refuse a store whose answers were drawn in another way.

    Raises:
        PoolError: names the first thing that differs, both values, and what to do.
    """
    have, want = found.source.model_dump(), expected.model_dump()
    for key in ("model", "engine"):  # a moved directory is the same model; whoever drew
        have[key] = want[key]
    if difference := first_difference(have, want):
        raise PoolError(
            f"the store {path} does not fit this run: {difference}; make it again in another "
            f"directory, or use the recipe that it was made with"
        )


def require_store_policy(
    path: Path, found: StoreManifest, source: Source, *, initial: bool
) -> None:
    """``require_store_of`` the policy, temperature and precision that a run samples with.

    ``source`` is what this run would sample now; ``initial`` says that its weights are still the
    initial policy's.

    Raises:
        PoolError: names what differs, both values, and what to do.
    """
    require_store_of(
        path,
        found,
        tokenizer_fingerprint=source.tokenizer_fingerprint,
        temperature=source.temperature,
        dtype=source.dtype,
        model_fingerprint=source.model_fingerprint if initial else None,
    )


def require_store_of(
    path: Path,
    found: StoreManifest,
    *,
    tokenizer_fingerprint: str,
    temperature: float,
    dtype: str,
    model_fingerprint: str | None = None,
) -> None:
    """Refuse a store whose log-probs another policy, temperature or precision gave.

    ``model_fingerprint`` is None where the weights have moved on, or have other names than the
    model that was sampled.

    Raises:
        PoolError: names what differs, both values, and what to do.
    """
    wanted = policy_fields(
        tokenizer_fingerprint=tokenizer_fingerprint,
        temperature=temperature,
        dtype=dtype,
        model_fingerprint=model_fingerprint,
    )
    require_store_source(path, found, found.source.model_copy(update=wanted))


def require_whole_store(path: Path, manifest: StoreManifest) -> None:
    """Compare every file of a store with its SHA-256.

    Raises:
        PoolError: a file is missing or is not the one that was written.
    """
    require_files_whole(path, manifest.files, what="store")
