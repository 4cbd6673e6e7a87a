"""Pass@k: how likely at least one of k samples is correct."""

from collections.abc import Sequence
from math import comb
from typing import overload

import numpy as np
from jaxtyping import Float, Int

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
    """Pass@k of every problem, for every k.

    Computed as: the scalar estimate once for each count that occurs, so it is exactly that.

    Raises:
        SettingsError: a k is not between 1 and the number of samples.
        DataError: a count is not between 0 and the number of samples.

    >>> pass_at_k_curve(4, np.array([0, 1, 4]), [2])
    {2: array([0. , 0.5, 1. ])}
    """
    return {k: pass_at_k(num_samples, correct, k) for k in ks}


def require_k_fits(k: int, samples: int) -> None:
    """Refuse a k that needs more samples than there are.

    Raises:
        SettingsError: k is not between 1 and ``samples``.
    """
    if not 1 <= k <= samples:
        raise SettingsError(f"need 1 <= k <= samples, got k={k}, samples={samples}")
