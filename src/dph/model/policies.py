"""Policies from disk: a whole model, or an adapter on the weights that it belongs to."""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from dph.errors import ModelError
from dph.model.adapter import add_adapter, is_adapter, merge_adapter, read_adapter
from dph.model.fingerprint import directory_fingerprint
from dph.model.loading import load_model
from dph.recipe import ModelSettings
from dph.recipe.section import Precision

# Weights on the straight line between two models of one shape.

Weights = Mapping[str, Tensor]
"""Tensors by name, as ``state_dict`` gives them: a tied tensor stands there under all its names."""


def interpolated_weights(base: Weights, final: Weights, weight: float) -> dict[str, Tensor]:
    """The weights at ``weight`` on the line from ``base`` (0) through ``final`` (1).

    Equation: base + weight * (final - base) (WiSE-FT, arXiv:2109.01903, section 2; for Pass@k
        arXiv:2504.10478).
    Computed as: from the nearer end, base + weight * (final - base) below 1/2 and
        final - (1 - weight) * (final - base) from there on, in float32 (float64 where a tensor is),
        whatever precision the two were saved in.
    Limits: 0 and 1 give the two models to the bit. What is alike in both stays as it is, infinite
        elements too; a tensor that holds no floating-point numbers has to be alike.

    Raises:
        ModelError: names or shapes differ, other tensors are tied, or a tensor that cannot be
            interpolated differs.
        ValueError: ``weight`` is not finite.
    """
    if not math.isfinite(weight):
        raise ValueError(f"the weight of an interpolation must be finite, got {weight}")
    require_same_shape(base, final)
    return {name: _between(name, tensor, final[name], weight) for name, tensor in base.items()}


def require_same_shape(base: Weights, final: Weights) -> None:
    """Refuse two models between which there is no line.

    Raises:
        ModelError: names or shapes differ, or other tensors are tied; says which.
    """
    if lacking := [*(base.keys() - final.keys()), *(final.keys() - base.keys())]:
        name = min(lacking)
        where = "first" if name in base else "second"
        raise ModelError(
            f"the two models do not have the same weights: {len(lacking)} are in only one of "
            f"them, for example {name} (in the {where})"
        )
    wrong = [name for name in base if base[name].shape != final[name].shape]
    if wrong:
        shapes = f"{tuple(base[wrong[0]].shape)} and {tuple(final[wrong[0]].shape)}"
        raise ModelError(
            f"the two models do not have the same shapes: {len(wrong)} weights differ, the first "
            f"is "
            f"{wrong[0]}: {shapes}"
        )
    if differing := sorted(_tied(base) ^ _tied(final), key=sorted):
        raise ModelError(
            f"one of the two models ties {' and '.join(sorted(differing[0]))}, the other does not"
        )


def _between(name: str, base: Tensor, final: Tensor, weight: float) -> Tensor:
    if not (base.is_floating_point() and final.is_floating_point()):
        if not torch.equal(base, final):
            raise ModelError(
                f"{name} differs between the two models and holds {base.dtype}, which cannot be "
                "interpolated"
            )
        return base
    dtype = torch.promote_types(torch.promote_types(base.dtype, final.dtype), torch.float32)
    start, end = base.to(dtype), final.to(dtype)
    if weight in (0, 1):  # -0.0 + 0 * x would be 0.0
        return end if weight else start
    change = end - start
    line = start + weight * change if weight < 1 / 2 else end - (1 - weight) * change
    return torch.where(start == end, start, line)  # inf - inf is NaN


def _tied(weights: Weights) -> set[frozenset[str]]:
    """The names that share one tensor, for every tensor that has several."""
    places: dict[tuple[object, ...], list[str]] = {}
    for name, tensor in weights.items():
        if tensor.numel():
            place = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
            places.setdefault(place, []).append(name)
    return {frozenset(names) for names in places.values() if len(names) > 1}


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
