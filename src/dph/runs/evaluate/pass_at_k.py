"""Pass@k: how likely at least one of k samples is correct."""

from collections.abc import Sequence
from math import comb

import numpy as np
from jaxtyping import Float, Int

from dph.errors import DataError, SettingsError


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased estimate of the probability that at least one of k samples is correct.

    Equation: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv:2107.03374, eq. 1).
    Computed as: (C(n, k) - C(n - c, k)) / C(n, k) in exact integers with one rounding, so that
    small values do not cancel.

    Raises:
        SettingsError: k is not between 1 and the number of samples.
        DataError: the number of correct samples is not between 0 and the number of samples.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
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
    """Pass@k of every problem, for every k.

    Computed as: the scalar estimate once for each count that occurs, so it is exactly that.

    Raises:
        SettingsError: a k is not between 1 and the number of samples.
        DataError: a count is not between 0 and the number of samples.

    >>> pass_at_k_curve(4, np.array([0, 1, 4]), [2])
    {2: array([0. , 0.5, 1. ])}
    """
    counts, place = np.unique(correct, return_inverse=True)
    return {
        k: np.array([pass_at_k(num_samples, int(c), k) for c in counts], dtype=np.float64)[place]
        for k in ks
    }


def require_k_fits(k: int, samples: int) -> None:
    """Refuse a k that needs more samples than there are.

    Raises:
        SettingsError: k is not between 1 and ``samples``.
    """
    if not 1 <= k <= samples:
        raise SettingsError(f"need 1 <= k <= samples, got k={k}, samples={samples}")
