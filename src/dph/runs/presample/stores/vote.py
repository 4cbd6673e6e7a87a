"""Accuracy of the answer that a store tilts towards, where labels tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from dph.runs.presample.manifest import read_manifest
from dph.runs.presample.stores.store import stored_groups, stored_values, stored_weights
from dph.runs.presample.stores.values import Valued


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Result of agreement on the labelled prompts of a store.

    Attributes:
        prompts: how many were graded.
        share: of them, those with a consensus: an answer with which another one agrees.
        right: of those with a consensus, the share whose consensus is right; None without any. Of
            classes that weigh the same each counts its part.
        answers_right: share of all answers to the graded prompts that are right.
    """

    prompts: int
    share: float
    right: float | None
    answers_right: float


def store_vote(path: Path, *, values: str) -> Vote | None:
    """The vote of a store whose answers weigh by ``values``, as its tilt does.

    None where no prompt is labelled, so where nobody knows what is right.

    Raises:
        PoolError: the store's answers were not compared.
    """
    manifest = read_manifest(path, "store")
    if manifest.values is None or not manifest.counts.labelled:
        return None
    weights = stored_weights(path, manifest, values, stored_groups(path))
    return vote(stored_values(path), weights)


def vote(
    groups: Mapping[str, Sequence[Valued]], weights: Mapping[str, Sequence[float]]
) -> Vote | None:
    """The vote of answers by prompt that weigh so much; None where none was graded."""
    graded = {i: group for i, group in groups.items() if any(v.correct is not None for v in group)}
    if not graded:
        return None
    found = (_consensus(group, weights[i]) for i, group in graded.items())
    known = [right for right in found if right is not None]
    return Vote(
        prompts=len(graded),
        share=len(known) / len(graded),
        right=fmean(known) if known else None,
        answers_right=fmean(bool(v.correct) for group in graded.values() for v in group),
    )


def _consensus(group: Sequence[Valued], weights: Sequence[float]) -> float | None:
    """Whether the answers of the largest weight are right; None where no two agree."""
    if max(weights) <= 0:
        return None
    leading = {
        value.answer_class: bool(value.correct)
        for value, weight in zip(group, weights, strict=True)
        if weight == max(weights)
    }
    return fmean(leading.values())
