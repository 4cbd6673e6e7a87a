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

from dph.errors import PoolError
from dph.runs.presample.making import write_answers
from dph.runs.presample.manifest import (
    Manifest,
    Source,
    ValueSource,
    read_manifest,
    require_whole,
)
from dph.runs.presample.stores.groups import (
    GROUPS,
    StoredGroup,
    groups_of,
    require_whole_distributions,
)
from dph.runs.presample.stores.targets import chosen_answers, tilted_answers
from dph.runs.presample.stores.values import VALUES, Valued, values_by_prompt
from dph.runs.presample.stores.weights import WEIGHTS, ValuedAnswers
from dph.runs.presample.tables import DistributionSample

GROUPS_FILE, VALUES_FILE = "groups.parquet", "values.parquet"


def write_store(
    path: Path,
    *,
    source: Source,
    groups: Sequence[pa.Table],
    values: pa.Table | None = None,
    value_source: ValueSource | None = None,
    about: Mapping[str, Any],
) -> Manifest:
    """Write a store atomically: all of it is there afterwards, or what was there before.

    ``groups`` come in the pieces they were drawn in. ``about`` are the counts but for sizes in
    bytes.
    """
    tables = {GROUPS_FILE: (GROUPS, groups)}
    if values is not None:
        tables[VALUES_FILE] = (VALUES, [values])
    return write_answers(path, "store", tables, source=source, values=value_source, counts=about)


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
    manifest = read_manifest(path, "store")
    require_whole(path, manifest)
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
    path: Path, manifest: Manifest, values: str, groups: Sequence[StoredGroup]
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
