"""What is asked of a model before prompts are shared in it: how far it attends, same logits."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_COARSE_TOLERANCE = 5e-2


def attention_window(model: PreTrainedModel) -> float:
    """How many tokens every layer attends to; 0 where a layer does not attend to tokens at all."""
    return min(map(_reach, DynamicCache(config=model.config).layers), default=torch.inf)


def same_logits(ours: Tensor, theirs: Tensor) -> bool:
    """Whether two computations of the same logits differ by no more than rounding."""
    tolerance = _TOLERANCE.get(theirs.dtype, _COARSE_TOLERANCE)
    # Lost weights give NaN both ways; whoever uses the values says so when it meets them.
    ours, theirs = ours.detach().double().nan_to_num(), theirs.detach().double().nan_to_num()
    return float((ours - theirs).abs().max()) <= tolerance * (1 + float(theirs.abs().max()))


def _reach(layer: Any) -> float:
    if type(layer) is DynamicSlidingWindowLayer:
        return float(layer.sliding_window)
    return torch.inf if type(layer) is DynamicLayer else 0.0
