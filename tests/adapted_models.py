"""Models with an adapter that has learnt something, and plain PEFT beside them."""

import peft
import torch

from dph.model.policies import add_adapter
from dph.recipe.tables import AdapterSettings
from tiny_models import build_model

KINDS = ("lora", "dora")


def adapter(kind="lora", **settings):
    return AdapterSettings.model_validate({"kind": kind, "rank": 4, "alpha": 8.0, **settings})


def moved(model, *, seed=1, size=0.05):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += size * torch.randn(parameter.shape, generator=generator)
    return model


def adapted_model(family="qwen2", kind="lora", *, base="base", **settings):
    model = build_model(family)
    add_adapter(model, adapter(kind, **settings), base=base, seed=0)
    return moved(model)


def plain_peft(directory, family="qwen2"):
    """PEFT's own wrapper around a fresh base, with the adapter that ``directory`` holds."""
    return peft.PeftModel.from_pretrained(build_model(family), directory, is_trainable=True).eval()
