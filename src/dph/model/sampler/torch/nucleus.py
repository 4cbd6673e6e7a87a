"""The nucleus: the fewest most likely tokens that together reach a probability."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

_PREFIX = 256
"""Tokens that are looked at first: real models' nuclei are smaller, and sorting them is cheap."""


def nucleus(
    probabilities: Float[Tensor, "rows vocabulary"], *, top_p: float
) -> Float[Tensor, "rows vocabulary"]:
    """1 for the fewest most likely tokens that together reach ``top_p``, else 0.

    Source: Holtzman et al., "The curious case of neural text degeneration" (2020), section 3.1.
    Ties are broken in favour of the smaller token id.
    Computed as: everything above the least likely value that is still needed, and as many tokens
    of that value as there is room for; this needs sorted values, not their order. The largest 256
    values come first; all are sorted only for the rows where those do not reach ``top_p``.
    """
    ordered = _largest(probabilities, _PREFIX)
    count, least = _bound(ordered, top_p)
    if ordered.shape[1] < probabilities.shape[1]:
        short = (ordered.sum(dim=-1, dtype=torch.float64) < top_p).nonzero()[:, 0]
        if len(short):
            rows = probabilities.index_select(0, short)
            count[short], least[short] = _bound(_largest(rows, rows.shape[1]), top_p)
    kept = probabilities >= least
    crowded = (kept.sum(dim=-1, keepdim=True) > count).nonzero()[:, 0]
    if len(crowded):
        rows, bound = probabilities[crowded], least[crowded]
        above, tied = rows > bound, rows == bound
        room = count[crowded] - above.sum(dim=-1, keepdim=True)
        kept[crowded] = above | (tied & (tied.cumsum(dim=-1) <= room))
    return kept.to(probabilities.dtype)


def _bound(ordered: Float[Tensor, "rows values"], top_p: float) -> tuple[Tensor, Tensor]:
    """How many of the largest values are needed, and the smallest of them."""
    before = ordered.cumsum(dim=-1, dtype=torch.float64) - ordered
    count = (before < top_p).sum(dim=-1, keepdim=True).clamp_(min=1)
    return count, ordered.gather(1, count - 1)


def _largest(values: Float[Tensor, "rows vocabulary"], count: int) -> Float[Tensor, "rows count"]:
    """The ``count`` largest values of every row, in descending order."""
    count = min(count, values.shape[1])
    if values.device.type != "cpu":
        return values.topk(count, dim=-1).values
    # NumPy partitions and sorts values alone, several times as fast as torch on a CPU.
    found = values.numpy()
    if count < values.shape[1]:
        found = np.partition(found, values.shape[1] - count, axis=-1)[:, -count:]
    return torch.from_numpy(np.sort(found, axis=-1)[:, ::-1].copy())
