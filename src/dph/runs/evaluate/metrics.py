"""Metrics of how many answers are right: Pass@k, and retention of the base model's abilities."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, exp, log
from typing import overload

import numpy as np
from jaxtyping import Bool, Float, Int

from dph.errors import DataError, SettingsError

Counts = Int[np.ndarray, "..."]


@overload
def pass_at_k(num_samples: int, num_correct: int, k: int) -> float: ...
@overload
def pass_at_k(
    num_samples: int | Counts | Sequence[int], num_correct: Counts | Sequence[int], k: int
) -> Float[np.ndarray, "..."]: ...
def pass_at_k(
    num_samples: int | Counts | Sequence[int], num_correct: int | Counts | Sequence[int], k: int
) -> float | Float[np.ndarray, "..."]:
    """Unbiased estimate of the probability that at least one of k samples is correct.

    Equation: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv:2107.03374, eq. 1).
    Computed as: (C(n, k) - C(n - c, k)) / C(n, k) in exact integers with one rounding, so that
    small values do not cancel.

    Args:
        num_samples: n, of all problems or of each.
        num_correct: c, a number or an array (a column of a table) with one for each problem.
        k: how many samples are drawn.

    Returns:
        A number, or an array of the shape of ``num_correct``.

    Raises:
        SettingsError: k is not between 1 and the number of samples.
        DataError: the number of correct samples is not between 0 and the number of samples.

    >>> pass_at_k(4, 1, 2), pass_at_k(4, [0, 1, 4], 2)
    (0.5, array([0. , 0.5, 1. ]))
    """
    if isinstance(num_samples, int | np.integer) and isinstance(num_correct, int | np.integer):
        return _pass_at_k(int(num_samples), int(num_correct), k)
    samples, correct = np.broadcast_arrays(num_samples, num_correct)
    pairs = np.stack([samples.ravel(), correct.ravel()])
    if pairs.size and not np.issubdtype(pairs.dtype, np.integer):
        raise DataError(f"counts must be whole numbers, got {pairs.dtype}")
    counts, place = np.unique(pairs, axis=1, return_inverse=True)
    values = [_pass_at_k(int(n), int(c), k) for n, c in counts.T]
    return np.array(values, dtype=np.float64)[place.ravel()].reshape(correct.shape)


def _pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    require_k_fits(k, num_samples)
    if not 0 <= num_correct <= num_samples:
        raise DataError(
            f"need 0 <= correct <= samples, got correct={num_correct}, samples={num_samples}"
        )
    total = comb(num_samples, k)
    return (total - comb(num_samples - num_correct, k)) / total


def pass_at_k_curve(
    num_samples: int, correct: Int[np.ndarray, "problems"], ks: Sequence[int]
) -> dict[int, Float[np.ndarray, "problems"]]:
    """Pass@k of every problem, for every k."""
    return {k: pass_at_k(num_samples, correct, k) for k in ks}


def require_k_fits(k: int, samples: int) -> None:
    """Refuse a k that needs more samples than there are."""
    if not 1 <= k <= samples:
        raise SettingsError(f"need 1 <= k <= samples, got k={k}, samples={samples}")


def style_shares(styles: Iterable[str]) -> dict[str, float]:
    """The share of each style, by name; empty when there is nothing to count.

    >>> style_shares(["plain", "cte", "plain", "plain"])
    {'cte': 0.25, 'plain': 0.75}
    """
    counts = Counter(styles)
    total = counts.total()
    return {style: counts[style] / total for style in sorted(counts)}


def effective_styles(shares: Mapping[str, float]) -> float:
    """The number of equally used styles that would be as diverse as ``shares``.

    Equation: exp(-sum of p log p), the Hill number of order 1 (Hill 1973, Ecology 54, eq. 4).
    Limits: 1 when one style has all, the number of styles when all have the same.

    Raises:
        DataError: the shares are not fractions that add up to 1.

    >>> round(effective_styles({"a": 0.25, "b": 0.25, "c": 0.5}), 3)
    2.828
    """
    if abs(sum(shares.values()) - 1) > 1e-6 or min(shares.values()) < 0:
        raise DataError(f"shares are fractions that add up to 1, got {dict(shares)}")
    return exp(-sum(share * log(share) for share in shares.values() if share > 0))


# Retention of the base model's abilities, and problems solved beyond them.
#
# **Source**: arXiv:2509.07430, section 6. The paper draws k = 8 samples from the base model, calls
# a problem solved if one of them is correct, and asks of one draw of k from the trained model: how
# many solved problems are solved again (keep), how many unsolved ones are solved now (explore).
#
# **Computed as**: the base's first k samples split the problems as in the paper, but the second
# draw is replaced by its exact average: the unbiased Pass@k over the samples from k on, which is
# the mean of "at least one correct" over all subsets of size k. The expectation is the same, since
# each subset is a draw of k; the noise is smaller, since all of them are used instead of one.
#
# Samples from index k on, also of the trained model: with the same seed both models share their
# random numbers sample by sample, so a model's first k samples are not a second draw, they are the
# base's own draw repeated as far as the weights agree.
#
# **The nulls** are the same numbers for the base itself. They are not 1 and 0, because a draw of k
# is not stable: a problem with success rate p is solved with probability 1 - (1 - p)^k each time.
# Only the distance of keep and explore from their nulls says something about training.

RETENTION_K = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Fractions of problems; None without a problem on that side, or without a second draw."""

    keep: float | None = None
    explore: float | None = None
    keep_null: float | None = None
    explore_null: float | None = None


def retention(
    model: Bool[np.ndarray, "problems model_samples"],
    base: Bool[np.ndarray, "problems base_samples"],
    *,
    k: int = RETENTION_K,
) -> Retention:
    """Keep and explore of ``model`` against ``base``, with what ``base`` scores against itself.

    Row i of both is the same problem, column j is sample j: correct or not. A second draw needs k
    samples beyond the first k; a model with fewer than 2 k samples gets None, and so does the
    null of such a base. For the base itself keep equals keep_null and explore explore_null.

    >>> always, never = [True, True], [False, False]
    >>> retention(np.array([always, never]), np.array([always, always]), k=1)
    Retention(keep=0.5, explore=None, keep_null=1.0, explore_null=None)
    """
    if len(model) != len(base):
        raise DataError(f"retention needs the same problems, got {len(model)} and {len(base)}")
    if k < 1:
        raise SettingsError(f"retention needs k >= 1, got k={k}")
    if base.shape[1] < k:
        return Retention()
    solved = solved_by(base, k)
    again, null = second_draw(model, k), second_draw(base, k)
    return Retention(
        keep=_mean(again, solved),
        explore=_mean(again, ~solved),
        keep_null=_mean(null, solved),
        explore_null=_mean(null, ~solved),
    )


def solved_by(base: Bool[np.ndarray, "problems samples"], k: int) -> Bool[np.ndarray, "problems"]:
    return np.asarray(base[:, :k].any(axis=1))


def second_draw(
    correct: Bool[np.ndarray, "problems samples"], k: int
) -> Float[np.ndarray, "problems"] | None:
    """Probability that k samples from k on solve each problem; None: too few."""
    rest = correct[:, k:]
    if rest.shape[1] < k:
        return None
    return pass_at_k_curve(rest.shape[1], rest.sum(axis=1), [k])[k]


def _mean(
    values: Float[np.ndarray, "problems"] | None, side: Bool[np.ndarray, "problems"]
) -> float | None:
    return float(values[side].mean()) if values is not None and side.any() else None
