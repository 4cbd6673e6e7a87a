"""Intervals over problems: of one mean, of a paired difference, and of Pass@k at all k together.

**Source**: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13 (percentile
interval); Clopper and Pearson (1934), Biometrika 26 (exact interval, if all problems have one
value). Problems are the unit: they are drawn with replacement, and every problem brings all of its
samples, so an interval covers both which problems were asked and how the sampling went.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dph.errors import DataError, SettingsError

RESAMPLES = 2000
LEVEL = 0.95
_BLOCK = 2_000_000
"""Indices held at once: bounds the memory of a large set, does not change the result."""
_NO_SPREAD = 1e-6
"""Standard error of a resample, in units of the data's, below which it is only rounding."""
PEER = "arXiv:2609.22547"
PEER_DRAWS = 4000
"""Draws of the multipliers, as in the paper."""
Differences = Mapping[int, Float[np.ndarray, "problems"]]
"""By k, the Pass@k of the model minus that of the base on every problem."""


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
    """True if all values are the same, so that their interval is exact."""
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


# The k from which RL loses: the difference of Pass@k of two models, at all k together.


def powers_of_two(largest: int) -> list[int]:
    """The usual k: 1, 2, 4 ... up to ``largest``."""
    return [2**power for power in range(largest.bit_length())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Lowest and highest difference by k, which hold at all of these k together."""

    bounds: Mapping[int, tuple[float, float]]
    level: float = LEVEL

    @property
    def above(self) -> tuple[int, ...]:
        """The k at which the model is above the base.

        One of them is wrong with a chance of at most 1 - ``level``.
        """
        return tuple(k for k, (low, _) in self.bounds.items() if low > 0)

    @property
    def not_above(self) -> tuple[int, ...]:
        """All other k: every k at which the model is not above the base, with confidence ``level``.

        It may also hold k at which the model is above the base, and the problems are too few.
        """
        return tuple(k for k in self.bounds if k not in self.above)

    @property
    def below(self) -> tuple[int, ...]:
        """The k at which the model is below the base.

        One of them is wrong with a chance of at most 1 - ``level``. The smallest k that loses is
        between the first of ``not_above`` and the first of ``below``, among the k of the band.
        """
        return tuple(k for k, (_, high) in self.bounds.items() if high < 0)

    def document(self) -> dict[str, Any]:
        """The first-loss set, for machines."""
        sets = {"not_above": list(self.not_above), "below": list(self.below)}
        return sets | {"confidence": self.level}

    def sentence(self) -> str:
        """The sets in a sentence.

        >>> print(Band(bounds={1: (0.1, 0.2), 2: (-0.1, 0.1), 4: (-0.2, -0.1)}).sentence())
        Of these k, above the base up to k=1; below it from k=4 on (95%, all k together).
        """
        ks = tuple(self.bounds)
        said = f"above the base {places_of(self.above, ks)}; below it {places_of(self.below, ks)}"
        return f"Of these k, {said} ({100 * self.level:.0f}%, all k together)."


def places_of(found: tuple[int, ...], ks: tuple[int, ...]) -> str:
    """Places of the found ones among ``ks``, in words."""
    if not found:
        return "at none"
    if len(found) == len(ks):
        return "at all"
    if found == ks[: len(found)]:
        return f"up to k={found[-1]}"
    if found == ks[-len(found) :]:
        return f"from k={found[0]} on"
    return f"at k={', '.join(map(str, found))}"


def simultaneous_band(
    apart: Differences, *, seed: int, resamples: int = RESAMPLES, level: float = LEVEL
) -> Band:
    """Band of the mean difference at every k, by the bootstrap over problems.

    Equation: mean(k) -+ c(k) se(k). c(k) is a quantile of |t*(k)|, a resample's distance from the
    mean in units of its own standard error (Efron and Tibshirani 1993, chapter 12.5), and one level
    serves all k: the smallest at which a share ``level`` of the resamples has no |t*(k)| above c(k)
    (Beran 1988, JASA 83). So few problems and skewed differences widen the band, and a k at which
    hardly any problem differs does not widen the others.
    Limits: -1 and 1 where more than (1 - level) / len(apart) of the resamples have no spread,
    which is where fewer than about 5 problems differ.
    Accuracy: in 2,000 simulated sets of problems with 16 answers each the truth lay within the band
    at all k, and in brackets within the peer's, in this many per cent
    (tests/runs/evaluate/test_intervals.py). With few problems a rare loss is often not among them.

    | problems | 10 | 20 | 50 | 100 | 200 |
    |---|---|---|---|---|---|
    | better at 1, worse at 16 | 96 (82) | 96 (92) | 95 (94) | 96 (95) | 95 (95) |
    | unchanged | 99 (92) | 98 (94) | 97 (95) | 96 (94) | 95 (95) |
    | one tenth of the problems lost | 84 (54) | 87 (77) | 93 (88) | 95 (93) | 96 (94) |
    """
    values, mean, error = _moments(apart)
    drawn = problem_draws(len(values), resamples, seed)
    distances = np.concatenate([_distances(values - mean, error, block) for block in drawn])
    told = np.isinf(distances).mean(axis=0) <= (1 - level) / len(apart)
    width = np.full(len(apart), np.inf)
    if told.any():
        known = distances[:, told]
        ordered = np.sort(known, axis=0)
        ranks = [np.searchsorted(*columns) for columns in zip(ordered.T, known.T, strict=True)]
        worst = np.sort(np.max(ranks, axis=0))
        width[told] = ordered[worst[int(np.ceil(level * len(worst))) - 1]] * error[told]
    return _band(apart, mean, width, level)


def gaussian_band(
    apart: Differences, *, seed: int, draws: int = PEER_DRAWS, level: float = LEVEL
) -> Band:
    """The peer's band, by Gaussian multipliers of the problems.

    Equation: mean(k) -+ c se(k); c is the quantile of max_k |sum_i e_i (d_i(k) - mean(k))| /
    (m se(k)) over draws of m standard normal e (Yang, Zhang and Chen 2026, arXiv:2609.22547v1, as
    their package passk-inference 0.3.1 computes it).
    Limits: -1 and 1 where all problems have the same difference.
    Differs from the paper: cut at -1 and 1, which no difference exceeds.
    """
    values, mean, error = _moments(apart)
    told = error > 0
    scaled = (values - mean)[:, told] / (len(values) * error[told])
    rng = np.random.default_rng(seed)
    blocks = (min(128, draws - start) for start in range(0, draws, 128))
    sums = [np.abs(rng.standard_normal((size, len(values))) @ scaled) for size in blocks]
    width = np.full(len(apart), np.inf)
    if told.any():
        width[told] = np.quantile(np.concatenate(sums).max(axis=1), level) * error[told]
    return _band(apart, mean, width, level)


def _moments(
    apart: Differences,
) -> tuple[Float[np.ndarray, "problems ks"], Float[np.ndarray, "ks"], Float[np.ndarray, "ks"]]:
    """A column for each k, their means, and standard errors: exactly 0 where all are equal."""
    values = np.stack([*apart.values()], axis=1).astype(np.float64)
    spread = values.std(axis=0) / np.sqrt(max(len(values) - 1, 1))
    return values, values.mean(axis=0), np.where(np.ptp(values, axis=0) > 0, spread, 0.0)


def _distances(
    centred: Float[np.ndarray, "problems ks"],
    error: Float[np.ndarray, "ks"],
    drawn: Int[np.ndarray, "block problems"],
) -> Float[np.ndarray, "block ks"]:
    """|t*| of every resample; infinite if it has no spread."""
    block, problems = drawn.shape
    places = (drawn + problems * np.arange(block)[:, None]).ravel()
    weights = np.bincount(places, minlength=drawn.size).reshape(drawn.shape) / problems
    means = weights @ centred
    spread = np.sqrt(np.maximum(weights @ centred**2 - means**2, 0) / max(problems - 1, 1))
    flat = spread <= _NO_SPREAD * error
    return np.where(flat, np.inf, np.abs(means) / np.where(flat, 1.0, spread))


def _band(
    apart: Differences, mean: Float[np.ndarray, "ks"], width: Float[np.ndarray, "ks"], level: float
) -> Band:
    """The mean -+ width; no difference of probabilities is outside [-1, 1]."""
    low, high = np.maximum(mean - width, -1.0), np.minimum(mean + width, 1.0)
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return Band(bounds=dict(zip(apart, pairs, strict=True)), level=level)
