"""The precision that per-token terms are computed in."""

import torch
from jaxtyping import Float
from torch import Tensor


def at_least_float32(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return bfloat16 and float16 values as float32, everything else as it is.

    Call it *before* subtracting log-probs: a difference of two bfloat16 numbers near -5 is a
    multiple of 2^-6 at best.
    """
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
