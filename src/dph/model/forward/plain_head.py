"""The head of a model whose logits are nothing but its products; each model is asked once."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers import PreTrainedModel

from dph.model.modes import evaluating

_known: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()


def plain_head(model: PreTrainedModel) -> nn.Linear | None:
    """The output layer, if ``logits = head(last hidden state)`` and nothing more; else None.

    Computed as: both on a few tokens, without gradients. Softcaps, logit scales and heads
    that are something else than a linear layer, or have hooks, give None.
    """
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or model.base_model is model or _has_hooks(head):
        return None
    if model not in _known:
        _known[model] = _gives_the_logits(model, head)
    return head if _known[model] else None


def _has_hooks(head: nn.Module) -> bool:
    return bool(head._forward_hooks or head._forward_pre_hooks or head._backward_hooks)


def _gives_the_logits(model: PreTrainedModel, head: nn.Linear) -> bool:
    vocabulary = model.config.get_text_config().vocab_size
    ids = torch.arange(1, 6, device=model.device)[None] % vocabulary
    options: dict[str, Any] = {"attention_mask": torch.ones_like(ids), "use_cache": False}
    with evaluating(model), torch.no_grad(), torch.autocast(model.device.type, enabled=False):
        hidden = getattr(model.base_model(input_ids=ids, **options), "last_hidden_state", None)
        if hidden is None or hidden.shape[-1] != head.in_features:
            return False
        expected, found = model(input_ids=ids, **options).logits, head(hidden)
    return expected.shape == found.shape and torch.allclose(
        expected.float(), found.float(), rtol=1e-4, atol=1e-5, equal_nan=True
    )
