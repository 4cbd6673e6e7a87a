"""Adapters of PEFT inside a model: LoRA (arXiv:2106.09685) and DoRA (arXiv:2402.09353).

The layers are put into the model itself, which stays the class that transformers made: the
training forward and the sampler see no difference. An adapter's directory is PEFT's own format:

    adapter_config.json  adapter_model.safetensors      `PeftModel.from_pretrained` reads them
    adapter_base.json                                   which weights it belongs to
"""

import copy
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from dph._base.files import read_json, write_json
from dph._base.randomness import derived_seed
from dph.errors import DataError, ModelError, SettingsError
from dph.recipe.extras import PEFT
from dph.recipe.tables import ALL_LINEAR, AdapterSettings

_LOG = logging.getLogger(__name__)
CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
BASE_FILE = "adapter_base.json"
_SCHEMA = 1
_PREFIX = "base_model.model."
"""What PEFT puts before every name in a file."""
_NAME = "default"

_bases: WeakKeyDictionary[PreTrainedModel, str] = WeakKeyDictionary()
"""Which weights the adapter of a model belongs to."""


def is_adapter(directory: Path) -> bool:
    """Whether a directory holds an adapter instead of a whole model."""
    return (directory / CONFIG_FILE).is_file()


def has_adapter(model: PreTrainedModel) -> bool:
    """Whether `add_adapter` or `read_adapter` was called for this model."""
    return model in _bases


def add_adapter(model: PreTrainedModel, settings: AdapterSettings, *, base: str, seed: int) -> None:
    """Put a new adapter into ``model``; from now on it alone is trained, in float32.

    It changes nothing yet: of the two small matrices one is 0 (``orthogonal``: their product is).
    Random numbers are a function of ``seed`` alone. ``base`` is the fingerprint of the directory
    that the weights came from.

    Raises:
        SettingsError: PEFT is not installed.
        ModelError: a target is no linear layer of the model, or is its output layer.
    """
    peft = _peft()
    targets = settings.targets
    if targets != ALL_LINEAR:
        _require_targets(model, tuple(targets))
    config = peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=targets if targets == ALL_LINEAR else list(targets),
        init_lora_weights=True if settings.init == "kaiming" else settings.init,
        use_dora=settings.kind == "dora",
        lora_dropout=0.0,  # policy ratios between two forwards of the same weights must be 1
        bias="none",
        task_type="CAUSAL_LM",
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(derived_seed(seed, "adapter"))
        _inject(peft, model, config, base)


def read_adapter(model: PreTrainedModel, directory: Path, *, base: str) -> None:
    """Put the adapter that ``directory`` holds into ``model``, whose weights ``base`` names.

    Raises:
        SettingsError: PEFT is not installed.
        ModelError: it belongs to other weights, or is damaged.
    """
    peft = _peft()
    if (belongs := _base_of(directory)) != base:
        raise ModelError(
            f"the adapter in {directory} was trained on different weights from those it would be "
            f"put on (fingerprint {belongs[:12]}, these are {base[:12]})"
        )
    try:
        config = peft.LoraConfig.from_pretrained(str(directory))
        weights = load_file(directory / WEIGHTS_FILE)
        _inject(peft, model, config, base)
        found = {name.removeprefix(_PREFIX): tensor for name, tensor in weights.items()}
        loaded = peft.set_peft_model_state_dict(model, found)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        what = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"the adapter in {directory} is damaged: {what[0]}") from error
    missing = [name for name in loaded.missing_keys if "lora_" in name]
    if missing or loaded.unexpected_keys:
        name = [*missing, *loaded.unexpected_keys][0]
        raise ModelError(f"the adapter in {directory} does not fit the model, for example {name}")


def save_policy(model: PreTrainedModel, directory: Path) -> None:
    """Save a model's adapter, or the whole model where it has none, into a directory.

    Raises:
        SafetensorError: the disk is full.
    """
    if not has_adapter(model):
        model.save_pretrained(directory)
        return
    weights = _peft().get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {f"{_PREFIX}{n}": t.detach().cpu().contiguous() for n, t in weights.items()}
    save_file(tensors, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    adapter_config(model).save_pretrained(str(directory))
    write_json(directory / BASE_FILE, {"schema": _SCHEMA, "fingerprint": _bases[model]})


def without_adapter(model: PreTrainedModel) -> PreTrainedModel:
    """The initial policy: a separate frozen model that shares the weights of ``model``.

    It has no tensors of its own, so it takes no memory in addition to ``model``. A model without an
    adapter is returned as it is.
    """
    if not has_adapter(model):
        return model
    shared: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        shared[id(tensor)] = tensor
    for _, layer in _adapted(model):
        shared[id(layer)] = layer.get_base_layer()
    shared[id(model.peft_config)] = None
    initial: PreTrainedModel = copy.deepcopy(model, shared)
    del initial.peft_config
    return initial.eval()


def merge_adapter(model: PreTrainedModel) -> None:
    """Make a model's adapter part of its weights, and the model a plain one.

    Equation: W + alpha / rank * B A for LoRA; for DoRA the rows of that, of the length it learnt.

    Raises:
        ModelError: a merged weight is not finite.
    """
    for name, layer in list(_adapted(model)):
        try:
            layer.merge(safe_merge=True)
        except ValueError as error:
            raise ModelError(f"the adapter of {name} cannot be merged: {error}") from error
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, layer.get_base_layer())
    del model.peft_config
    del _bases[model]


def adapter_config(model: PreTrainedModel) -> Any:
    """PEFT's config of a model's adapter."""
    return model.peft_config[_NAME]


def _inject(peft: Any, model: PreTrainedModel, config: Any, base: str) -> None:
    model.requires_grad_(False)
    config.inference_mode = False
    peft.inject_adapter_in_model(config, model, adapter_name=_NAME)
    config.target_modules = sorted(config.target_modules)  # a set, whose order is anyone's
    for parameter in model.parameters():
        if parameter.requires_grad:  # small matrices of bfloat16 would lose their small steps
            parameter.data = parameter.data.float()
    _bases[model] = base


def _adapted(model: PreTrainedModel) -> Iterator[tuple[str, Any]]:
    from peft.tuners.tuners_utils import BaseTunerLayer  # noqa: PLC0415  # an extra

    yield from ((n, m) for n, m in model.named_modules() if isinstance(m, BaseTunerLayer))


def _require_targets(model: PreTrainedModel, targets: tuple[str, ...]) -> None:
    head = model.get_output_embeddings()
    linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear | Conv1D)}
    for target in targets:
        found = [m for n, m in linear.items() if n == target or n.endswith(f".{target}")]
        if head is not None and any(module is head for module in found):
            raise ModelError(
                f"model.adapter.targets: {target!r} is the output layer, whose weights are read "
                f"in blocks to compute log-probs; it cannot have an adapter"
            )
        if not found:
            names = {n.rpartition(".")[2] for n, m in linear.items() if m is not head}
            raise ModelError(
                f"model.adapter.targets: {type(model).__name__} has no linear layer {target!r}; "
                f"it has {', '.join(sorted(names))}"
            )


def _base_of(directory: Path) -> str:
    try:
        content = read_json(directory / BASE_FILE)
        return str(content["fingerprint"])
    except (DataError, KeyError, TypeError) as error:
        raise ModelError(f"the adapter in {directory} is damaged: {error}") from error


def _peft() -> Any:
    try:
        import peft  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise SettingsError(PEFT.missing) from error
    return peft
