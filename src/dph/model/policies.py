"""Policies from disk: a whole model, or an adapter on the weights that it belongs to."""

from pathlib import Path

import torch
from transformers import PreTrainedModel

from dph.model.adapter import add_adapter, is_adapter, merge_adapter, read_adapter
from dph.model.fingerprint import directory_fingerprint
from dph.model.loading import load_model
from dph.recipe import ModelSettings
from dph.recipe.section import Precision


def load_policy(
    path: Path, settings: ModelSettings, *, initial: Path, seed: int | None = None
) -> PreTrainedModel:
    """The model in ``path``: a whole one, or an adapter on the weights in ``initial``.

    With ``seed`` a whole model gets a new adapter where ``settings`` ask for one: it is what
    training begins with.

    Raises:
        ModelError: the directory is missing or damaged, or the adapter belongs to other weights.
        SettingsError: there is no such device, or PEFT is missing.
    """
    adapted = is_adapter(path)
    model = load_model(
        initial if adapted else path,
        device=settings.device,
        attention=settings.attention,
        gradient_checkpointing=settings.gradient_checkpointing,
        weights=settings.weights,
    )
    if adapted:
        read_adapter(model, path, base=directory_fingerprint(initial))
    elif settings.adapter is not None and seed is not None:
        base = directory_fingerprint(path)
        add_adapter(model, settings.adapter, base=base, seed=seed)
    return model.eval()


def load_whole(path: Path, *, initial: Path, weights: Precision = "float32") -> PreTrainedModel:
    """The model in ``path`` on the CPU as a plain one: an adapter is merged into its weights.

    Merged in float32, whatever the weights are kept in afterwards. Attention is the eager one,
    which every architecture has.

    Raises:
        ModelError: as `load_policy`.
    """
    adapted = is_adapter(path)
    model = load_model(initial if adapted else path, device="cpu", attention="eager")
    if adapted:
        read_adapter(model, path, base=directory_fingerprint(initial))
        merge_adapter(model)
    return model.to(getattr(torch, weights))
