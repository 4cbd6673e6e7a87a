"""Log-probs by cut-cross-entropy (Wijmans et al., arXiv:2411.09009), where it is installed."""

import importlib
import importlib.util

import torch
from jaxtyping import Float, Int
from torch import Tensor

_PACKAGE = "cut_cross_entropy"


def takes_cut_cross_entropy(device: str, dtype: torch.dtype) -> bool:
    """Whether the optional package is there and has kernels for this device and precision."""
    sixteen_bits = dtype in (torch.bfloat16, torch.float16)
    return device == "cuda" and sixteen_bits and importlib.util.find_spec(_PACKAGE) is not None


def cut_logprobs(
    hidden: Float[Tensor, "tokens size"],
    weight: Float[Tensor, "vocabulary size"],
    targets: Int[Tensor, "tokens"],
    temperature: float,
    *,
    dtype: torch.dtype,
) -> Float[Tensor, "tokens"]:
    """Give log softmax(weight hidden / temperature) at the targets, in float32.

    The package by default leaves small gradients out; here it does not.
    """
    negative: Tensor = importlib.import_module(_PACKAGE).linear_cross_entropy(
        (hidden / temperature).to(dtype),
        weight.to(dtype),
        targets,
        reduction="none",
        filter_eps=None,
    )
    return -negative.float()
