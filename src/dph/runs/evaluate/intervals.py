"""Intervals over problems: by the bootstrap, and exact where all problems have one value.

**Source**: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13 (percentile
interval); Clopper and Pearson (1934), Biometrika 26 (exact interval). Problems are the unit: they
are drawn with replacement, and every problem brings all of its samples, so the interval covers both
which problems were asked and how the sampling went.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dph.errors import DataError, SettingsError

RESAMPLES = 2000
LEVEL = 0.95
_BLOCK = 2_000_000
"""Indices held at once: bounds the memory of a large set, does not change the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A mean difference a - b over the same problems, and its interval."""

    mean: float
    lo: float
    hi: float


def bootstrap_mean(
    values: Float[np.ndarray, "problems"],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of ``values``, exact where they are all equal.

    Equation: n equal values c show that c has a probability of at least
    q = ((1 - level) / 2)^(1/n), so a mean of values within the bounds [a, b] lies in
    [q c + (1 - q) a, q c + (1 - q) b]. At c = a and c = b that is Clopper and Pearson's interval.
    Limits: equal values outside of ``bounds`` have a point for an interval, which says nothing.

    Raises:
        DataError: there are no values, or some are not finite.
        SettingsError: ``resamples`` or ``level`` is out of range.

    >>> bootstrap_mean(np.ones(100), seed=0)
    (0.963..., 1.0)
    """
    _require_valid(values, resamples, level)
    if all_equal(values):
        low, high = bounds
        value = float(values[0])
        q = ((1 - level) / 2) ** (1 / len(values)) if low <= value <= high else 1.0
        return q * value + (1 - q) * low, q * value + (1 - q) * high
    return bootstrap(
        lambda drawn: values[drawn].mean(axis=1),
        len(values),
        seed=seed,
        resamples=resamples,
        level=level,
    )


def all_equal(values: Float[np.ndarray, "problems"]) -> bool:
    """Whether all values are the same, so that their interval is exact."""
    return bool(values.min() == values.max())


def bootstrap(
    statistic: Callable[[Int[np.ndarray, "block problems"]], Float[np.ndarray, "block"]],
    problems: int,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> tuple[float, float]:
    """Percentile bootstrap interval of any statistic of ``problems`` problems.

    ``statistic`` is given the numbers of the problems that were drawn, a row for each resample.
    Where it is NaN (a share of problems of which none was drawn) the resample is left out.

    >>> bootstrap(lambda drawn: np.ones(len(drawn)), 3, seed=0)
    (1.0, 1.0)
    """
    _require_valid(np.zeros(problems), resamples, level)
    found = np.concatenate([statistic(drawn) for drawn in problem_draws(problems, resamples, seed)])
    known = found[~np.isnan(found)]
    if not len(known):
        raise DataError("no resample has a value: there is nothing to draw an interval from")
    lo, hi = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(lo), float(hi)


def paired_difference(
    a: Float[np.ndarray, "problems"],
    b: Float[np.ndarray, "problems"],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Difference:
    """Mean of a - b with its interval; ``a[i]`` and ``b[i]`` belong to the same problem.

    Pairing takes out what both find hard or easy, so the interval is narrower than that of two
    unrelated means whenever a and b are correlated.

    Limits: where a and b are the same at every problem the interval is 0; values in [0, 1].

    Raises:
        DataError: the lengths differ, there are no values, or some are not finite.
        SettingsError: ``resamples`` or ``level`` is out of range.
    """
    if len(a) != len(b):
        raise DataError(f"a paired difference needs equal lengths, got {len(a)} and {len(b)}")
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    bounds = (-1.0, 1.0) if differences.any() else (0.0, 0.0)
    lo, hi = bootstrap_mean(differences, seed=seed, resamples=resamples, level=level, bounds=bounds)
    return Difference(mean=float(differences.mean()), lo=lo, hi=hi)


def problem_draws(
    problems: int, resamples: int, seed: int
) -> Iterator[Int[np.ndarray, "block problems"]]:
    """The problems of every resample, in blocks that fit in memory."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // problems)
    for start in range(0, resamples, block):
        yield rng.integers(0, problems, size=(min(block, resamples - start), problems))


def _require_valid(values: Float[np.ndarray, "problems"], resamples: int, level: float) -> None:
    if len(values) == 0:
        raise DataError("a bootstrap needs at least one problem, got none")
    if not np.isfinite(values).all():
        raise DataError("a bootstrap needs finite values, got NaN or infinity")
    if resamples < 1:
        raise SettingsError(f"resamples must be at least 1, got {resamples}")
    if not 0 < level < 1:
        raise SettingsError(f"level must lie in (0, 1), got {level}")
