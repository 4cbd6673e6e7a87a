"""From token values to one number, in a way that cutting into micro-batches cannot change.

A weight is fixed for every row of a whole optimizer mini-batch at once. Rows carry it into
whichever micro-batch they land in, so the micro-batch losses simply add up (no division by
their number) and so do their gradients.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dph.errors import DataError, SettingsError

Reduction = Literal["token_mean", "sequence_mean", "fixed_length"]


def row_weights(
    lengths: Int[Tensor, "rows"], *, reduction: Reduction, max_tokens: int | None = None
) -> Float[Tensor, "rows"]:
    """Weights w_i such that sum_i w_i sum_t value_it is the reduction (float32).

    Equation: token_mean: 1 / total tokens (DAPO). sequence_mean: 1 / (rows * length_i)
    (GRPO). fixed_length: 1 / (rows * max_tokens) (Dr. GRPO, arXiv:2503.20783).
    Rows without tokens get weight 0 and do not count as rows: padding a batch with them
    changes nothing. An empty set of rows has no weights.

    Call it once for the policy rows and once for the rehearsal rows: each term has its own
    denominator.

    Args:
        lengths: Tokens of each row of the mini-batch that its term uses.
        reduction: What to compute.
        max_tokens: The length limit of sampling; used, and needed, by fixed_length only.

    Raises:
        SettingsError: the reduction is unknown, or fixed_length without ``max_tokens`` >= 1.
        DataError: a length is negative, or above ``max_tokens`` under fixed_length.

    >>> row_weights(torch.tensor([1, 3, 0]), reduction="sequence_mean").tolist()
    [0.5, 0.1666666716337204, 0.0]
    """
    if reduction not in get_args(Reduction):
        raise SettingsError(
            f"reduction must be one of {', '.join(get_args(Reduction))}, got {reduction!r}"
        )
    if lengths.numel() and int(lengths.min()) < 0:
        raise DataError(f"a row's length must be at least 0, got {int(lengths.min())}")
    used = lengths > 0
    if reduction == "token_mean":
        divisors = lengths.sum().expand_as(lengths)
    elif reduction == "sequence_mean":
        divisors = used.sum() * lengths
    else:
        divisors = (used.sum() * _limit(lengths, max_tokens)).expand_as(lengths)
    # The clamp is for rows without tokens only, which the mask then sets to 0.
    return used / divisors.clamp(min=1).float()


def _limit(lengths: Int[Tensor, "rows"], max_tokens: int | None) -> int:
    """Return ``max_tokens`` after checking that it bounds every row."""
    if max_tokens is None or max_tokens < 1:
        raise SettingsError(f"reduction 'fixed_length' needs max_tokens >= 1, got {max_tokens}")
    if lengths.numel() and int(lengths.max()) > max_tokens:
        raise DataError(f"a row has {int(lengths.max())} tokens, above {max_tokens=}")
    return max_tokens


def weighted_sum(
    values: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    weights: Float[Tensor, "rows"],
) -> Float[Tensor, ""]:
    """Return sum_i w_i sum_t value_it over the tokens in ``mask``; 0 when there are none.

    What ``values`` holds outside the mask, NaN included, reaches neither the sum nor the
    gradient with respect to ``values``. (It does reach what ``values`` were computed from if
    that was not masked too: 0 * inf is NaN.)
    """
    return (torch.where(mask, values, 0.0).sum(-1) * weights.to(values.dtype)).sum()
