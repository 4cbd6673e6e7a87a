"""Which features the lost problems have more often than others.

Only problems that could have been named are counted (``changes.could_be_lost``): of one that the
baseline solved once in sixteen no loss can be shown, so being easy would pass for being lost. Given
how many of them are lost, and if that has nothing to do with a feature, every choice of as many is
as likely as any other: how many of the lost have the feature is hypergeometric (Fisher 1935),
one-sided.

Features overlap (a database and the length of its prompts), so they are adjusted together: how
small does the smallest p-value of all features get when the lost are drawn at random? **Source**:
Westfall and Young (1993), Resampling-Based Multiple Testing, single-step minP. The smallest
adjusted p-value is at most x with a chance of at most x where the lost have nothing in common,
whatever the dependence.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError
from dph.results.diagnosis.problem_features import Feature, Features
from dph.results.diagnosis.proportions import newcombe
from dph.results.diagnosis.same_model import falls
from dph.runs.evaluate.intervals import Difference

DRAWS = 10_000
_BLOCK = 500
"""Draws at a time; bounds the memory, does not change the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFeature:
    """A feature among problems that could have been lost: how many have it, how many of both were.

    ``difference`` is the share lost of those with the feature minus that of those without, with its
    95% interval of this feature alone. ``p_value`` is exact, ``adjusted`` for all features of the
    set.
    """

    feature: Feature
    lost_with: int
    having: int
    lost_without: int
    lacking: int
    difference: Difference
    p_value: float
    adjusted: float
    named: bool = False
    """Whether ``adjusted`` reaches the level of the diagnosis."""


def over_represented(
    features: Features,
    lost: Bool[np.ndarray, "problems"],
    candidates: Bool[np.ndarray, "problems"],
    *,
    seed: int,
    draws: int = DRAWS,
) -> list[LostFeature]:
    """Every feature that some candidates have and others lack, the least likely by chance first.

    Empty where nothing or everything is lost. The same seed gives the same result.

    Raises:
        DataError: a lost problem is not among the candidates.
    """
    if (lost & ~candidates).any():
        raise DataError("a problem that was lost has to be one that could be lost")
    held, named = features.held[:, candidates], lost[candidates]
    having = held.sum(axis=1)
    told = np.flatnonzero((having > 0) & (having < held.shape[1]))
    if named.all() or not named.any() or not len(told):
        return []
    chances = _chances(having[told], int(named.sum()), held.shape[1])
    with_it = (held[told] & named).sum(axis=1)
    p_values = chances[np.arange(len(told)), with_it]
    smallest = _smallest(held[told], int(named.sum()), chances, seed=seed, draws=draws)
    # The observed choice counts as one of the draws, so that no p-value is 0.
    adjusted = (1 + (smallest[None, :] <= p_values[:, None]).sum(axis=1)) / (draws + 1)
    rows = [
        _row(features.features[at], named, held[at], float(p), float(a))
        for at, p, a in zip(told, p_values, adjusted, strict=True)
    ]
    return sorted(rows, key=lambda row: row.p_value)


def _chances(
    having: Int[np.ndarray, "features"], lost: int, candidates: int
) -> Float[np.ndarray, "features counts"]:
    """P(at least x of the lost have the feature) for each feature and each x from 0 to the lost."""
    found = np.zeros((len(having), lost + 1))
    for row, total in enumerate(having.tolist()):
        # At least x of the lost have it: at most total - x of the others do.
        others = falls(total, lost, candidates - lost)
        for x in range(min(lost, total) + 1):
            found[row, x] = others[min(total - x, candidates - lost)]
    return found


def _smallest(
    held: Bool[np.ndarray, "features candidates"],
    lost: int,
    chances: Float[np.ndarray, "features counts"],
    *,
    seed: int,
    draws: int,
) -> Float[np.ndarray, "draws"]:
    """The smallest p-value of all features in each of many random choices of the lost."""
    rng = np.random.default_rng(seed)
    features, candidates = held.shape
    found = []
    for start in range(0, draws, _BLOCK):
        order = rng.random((min(_BLOCK, draws - start), candidates)).argpartition(lost - 1, axis=1)
        chosen = np.zeros(order.shape, dtype=np.float32)
        np.put_along_axis(chosen, order[:, :lost], 1.0, axis=1)
        counts = np.rint(held.astype(np.float32) @ chosen.T).astype(np.int64)
        found.append(chances[np.arange(features)[:, None], counts].min(axis=0))
    return np.concatenate(found)


def _row(
    feature: Feature,
    lost: Bool[np.ndarray, "candidates"],
    held: Bool[np.ndarray, "candidates"],
    p_value: float,
    adjusted: float,
) -> LostFeature:
    lost_with, having = int((lost & held).sum()), int(held.sum())
    lost_without, lacking = int((lost & ~held).sum()), int((~held).sum())
    return LostFeature(
        feature=feature,
        lost_with=lost_with,
        having=having,
        lost_without=lost_without,
        lacking=lacking,
        difference=newcombe(lost_with, having, lost_without, lacking),
        p_value=p_value,
        adjusted=adjusted,
    )
