"""torch's own attention kernels for CUDA, with the log of the softmax's sum going in and out.

They are called without dropout, so the random state that their backward pass takes is never read.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dph.model.attention.kernels import AttentionPart, Explicit, Kernel, Scoring, kernel_for

_ALIGNMENT = 32
"""The memory-efficient kernel wants log-sums of a multiple of so many queries."""


class FlashCuda:
    """FlashAttention of torch: 16-bit numbers, no bias, no softcap."""

    def __init__(self, operators: Any = torch.ops.aten) -> None:
        self._forward = operators._scaled_dot_product_flash_attention
        self._backward = operators._scaled_dot_product_flash_attention_backward
        self._random: tuple[Tensor, Tensor] | None = None

    def forward(self, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> AttentionPart:
        """See `Kernel`."""
        out, log_sum, *_, seed, offset, _ = self._forward(
            query.contiguous(),
            key.contiguous(),
            value.contiguous(),
            0.0,
            scoring.causal,
            False,
            scale=scoring.scaling,
        )
        self._random = (seed, offset)
        return AttentionPart(out, log_sum)

    def backward(
        self,
        grad: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        log_sum: Tensor,
        scoring: Scoring,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Kernel`; after a forward of the same instance."""
        assert self._random is not None
        tensors = (x.contiguous() for x in (grad, query, key, value, out, log_sum))
        grads: tuple[Tensor, Tensor, Tensor] = self._backward(
            *tensors,
            None,
            None,
            query.shape[2],
            key.shape[2],
            0.0,
            scoring.causal,
            *self._random,
            scale=scoring.scaling,
        )
        return grads


class EfficientCuda:
    """Memory-efficient attention of torch: also float32; no bias, no softcap."""

    def __init__(self, operators: Any = torch.ops.aten) -> None:
        self._forward = operators._scaled_dot_product_efficient_attention
        self._backward = operators._scaled_dot_product_efficient_attention_backward
        self._random: tuple[Tensor, Tensor] | None = None

    def forward(self, query: Tensor, key: Tensor, value: Tensor, scoring: Scoring) -> AttentionPart:
        """See `Kernel`."""
        out, log_sum, seed, offset = self._forward(
            query.contiguous(),
            key.contiguous(),
            value.contiguous(),
            None,
            True,
            0.0,
            scoring.causal,
            scale=scoring.scaling,
        )
        self._random = (seed, offset)
        return AttentionPart(out, log_sum[..., : query.shape[2]])

    def backward(
        self,
        grad: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        log_sum: Tensor,
        scoring: Scoring,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Kernel`; after a forward of the same instance."""
        assert self._random is not None
        # Weights of queries that do not exist: exp(score - inf) = 0.
        log_sum = functional.pad(log_sum, (0, -query.shape[2] % _ALIGNMENT), value=torch.inf)
        grad, query, key, value, out = (x.contiguous() for x in (grad, query, key, value, out))
        of_query, of_key, of_value, _ = self._backward(
            grad,
            query,
            key,
            value,
            None,
            out,
            log_sum,
            *self._random,
            0.0,
            [True, True, True, False],
            scoring.causal,
            scale=scoring.scaling,
        )
        return of_query, of_key, of_value


def device_kernel_for(query: Tensor, value: Tensor, *, softcap: float | None) -> Kernel:
    """The fastest kernel for these inputs, on any device."""
    size = query.shape[-1]
    if query.device.type != "cuda" or softcap is not None or size != value.shape[-1]:
        return kernel_for(query, value, softcap=softcap)
    if query.dtype in (torch.bfloat16, torch.float16) and size % 8 == 0 and size <= 256:
        return FlashCuda()
    if query.dtype is torch.float32 and size % 4 == 0:
        return EfficientCuda()
    return Explicit()
