"""Attention over some of the keys and over the others, merged into attention over all of them.

Both ways weigh by w = 1 / (1 + exp(second.log_sum - first.log_sum)) and differ in the last bit of a
few numbers: `merge_evenly` rounds every element alike, `merge` takes fewer kernel calls.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from dph.model.attention.kernels import Part


def merge(first: Part, second: Part) -> Part:
    """Attention over the keys of both parts, which can be merged with others again.

    Equation: log_sum = logaddexp(first.log_sum, second.log_sum), out = exp(first.log_sum - log_sum)
    first.out + exp(second.log_sum - log_sum) second.out.
    """
    weight = torch.sigmoid(first.log_sum - second.log_sum)[..., None].to(first.out.dtype)
    return Part(
        torch.lerp(second.out, first.out, weight),
        torch.logaddexp(second.log_sum, first.log_sum),
    )


def merge_evenly(first: Part, second: Part) -> Float[Tensor, "batch heads queries value"]:
    """The mixed values over the keys of both parts, the same wherever a row stands in its batch.

    Equation: out = w first.out + (1 - w) second.out, w = 1 / (1 + exp(second.log_sum -
    first.log_sum)).
    Computed as: exp of a contiguous tensor, not sigmoid, which rounds the last elements of a
    tensor differently on a CPU: a row's tokens would depend on its place in the batch.
    """
    gap = (second.log_sum - first.log_sum).contiguous()
    weight = gap.exp_().add_(1).reciprocal_()
    return torch.lerp(second.out, first.out, weight[..., None].to(first.out.dtype))
