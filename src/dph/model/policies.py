"""Policies: weights as a whole or with an adapter, loaded, merged, interpolated, and told apart."""

import copy
import hashlib
import json
import logging
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.pytorch_utils import Conv1D

from dph._base.files import read_json, sha256, write_json
from dph._base.randomness import derived_seed
from dph.errors import DataError, ModelError, SettingsError
from dph.model.hub import reason
from dph.model.loading import load_model
from dph.recipe import ModelSettings
from dph.recipe.section import Precision
from dph.recipe.tables import ALL_LINEAR, PEFT, AdapterSettings

# Adapters of PEFT inside a model: LoRA (arXiv:2106.09685) and DoRA (arXiv:2402.09353).
#
# The layers are put into the model itself, which remains of its transformers class: the training
# forward and the sampler see no difference. An adapter's directory is in PEFT's format:
#
#     adapter_config.json  adapter_model.safetensors      `PeftModel.from_pretrained` reads them
#     adapter_base.json                                   which weights it belongs to

_LOG = logging.getLogger(__name__)
CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
BASE_FILE = "adapter_base.json"
_PREFIX = "base_model.model."
"""Prefix of every name in a file of PEFT."""
_NAME = "default"

_bases: WeakKeyDictionary[PreTrainedModel, str] = WeakKeyDictionary()
"""Fingerprint of the weights that the adapter of a model belongs to."""


def is_adapter(directory: Path) -> bool:
    """True if a directory holds an adapter instead of a whole model."""
    return (directory / CONFIG_FILE).is_file()


def has_adapter(model: PreTrainedModel) -> bool:
    """True if `add_adapter` or `read_adapter` was called for this model."""
    return model in _bases


def add_adapter(model: PreTrainedModel, settings: AdapterSettings, *, base: str, seed: int) -> None:
    """Put a new adapter into ``model``; from now on only it is trained, in float32.

    It changes nothing yet: one of the two small matrices is 0 (``orthogonal``: their product is).
    Random numbers are a function of ``seed`` only. ``base`` is the fingerprint of the directory
    that the weights came from.
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

    An adapter that PEFT or TRL saved has only the name of its model: a directory of that name is
    compared; with any other name the adapter is taken to belong to ``base``.
    """
    peft = _peft()
    if (belongs := _base_of(directory) or base) != base:
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
        raise ModelError(f"the adapter in {directory} is damaged: {reason(error)}") from error
    missing = [name for name in loaded.missing_keys if "lora_" in name]
    if missing or loaded.unexpected_keys:
        name = [*missing, *loaded.unexpected_keys][0]
        raise ModelError(f"the adapter in {directory} does not fit the model, for example {name}")


def save_policy(model: PreTrainedModel, directory: Path) -> None:
    """Save a model's adapter, or the whole model if it has none, into a directory."""
    if not has_adapter(model):
        model.save_pretrained(directory)
        return
    weights = _peft().get_peft_model_state_dict(model, save_embedding_layers=False)
    tensors = {f"{_PREFIX}{n}": t.detach().cpu().contiguous() for n, t in weights.items()}
    save_file(tensors, directory / WEIGHTS_FILE, metadata={"format": "pt"})
    adapter_config(model).save_pretrained(str(directory))
    write_json(directory / BASE_FILE, {"schema": 1, "fingerprint": _bases[model]})


def sharing(model: PreTrainedModel) -> PreTrainedModel:
    """A second model of the same tensors, which takes no memory: one of them can get an adapter."""
    shared: dict[int, Any] = {id(t): t for t in (*model.parameters(), *model.buffers())}
    made: PreTrainedModel = copy.deepcopy(model, shared)
    return made.eval()


def merge_adapter(model: PreTrainedModel) -> None:
    """Make a model's adapter part of its weights, and the model a plain one.

    Equation: W + alpha / rank * B A for LoRA; for DoRA the rows of that, of the length it learnt.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer  # noqa: PLC0415  # an extra

    layers: list[tuple[str, Any]] = [*model.named_modules()]
    for name, layer in layers:
        if not isinstance(layer, BaseTunerLayer):
            continue
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
    config.target_modules = sorted(config.target_modules)  # a set, in no order
    for parameter in model.parameters():
        if parameter.requires_grad:  # small matrices of bfloat16 would lose their small steps
            parameter.data = parameter.data.float()
    _bases[model] = base


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


def _base_of(directory: Path) -> str | None:
    """The fingerprint of the weights that an adapter belongs to; None if nothing says it."""
    try:
        if (directory / BASE_FILE).exists():
            return str(read_json(directory / BASE_FILE)["fingerprint"])
        named = Path(read_json(directory / CONFIG_FILE)["base_model_name_or_path"] or "")
        if (named / "config.json").is_file():
            return directory_fingerprint(named)
        _LOG.warning(
            "%s does not say which weights it was trained on (%s names %s): it is taken to belong "
            "to the recipe's model",
            *(directory, CONFIG_FILE, str(named) if named.parts else "none"),
        )
        return None
    except (DataError, KeyError, TypeError) as error:
        raise ModelError(f"the adapter in {directory} is damaged: {error}") from error


def _peft() -> Any:
    try:
        import peft  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise SettingsError(PEFT.missing) from error
    return peft


# Fingerprints: two models or tokenizers have the same one if and only if they are the same.


def weight_fingerprint(model: PreTrainedModel) -> str:
    """SHA-256, in hex, over names, shapes, dtypes and bytes of the weights.

    Tied weights count once, under the first of their names. The same before and after a model is
    saved and loaded, and on every device. An adapter counts, and how much of it.
    """
    digest = hashlib.sha256()
    if has_adapter(model):
        config = adapter_config(model)
        digest.update(f"adapter {config.use_dora} {config.r} {config.lora_alpha}\n".encode())
    seen: set[tuple[Any, ...]] = set()
    for name, tensor in sorted(model.state_dict().items()):
        place = _place(tensor)
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _place(tensor: Tensor) -> tuple[object, ...]:
    """Equal for two tensors if they are one in memory."""
    return tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def directory_fingerprint(directory: Path) -> str:
    """SHA-256, in hex, over the configs and the whole of every weight file of a model directory.

    The configs have the shape of the model and the tokens that end an answer. A file that has not
    changed since this process last read it is not read again.
    """
    digest = hashlib.sha256()
    names = ("config.json", "generation_config.json", CONFIG_FILE)
    configs = [directory / name for name in names]
    weights = sorted(directory.glob("*.safetensors")) + sorted(directory.glob("*.index.json"))
    for path in [path for path in configs if path.exists()] + weights:
        status = path.stat()
        changed = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        digest.update(f"{path.name} {_file_digest(path, changed)}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _file_digest(path: Path, _changed: tuple[int, ...]) -> str:
    """SHA-256 of a file; ``_changed`` tells it from an earlier file of the same name."""
    return sha256(path)


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256, in hex, over everything that decides how text becomes tokens.

    That is the vocabulary, the merges and the other rules of the backend, the special tokens and
    the chat template; not the directory, and neither padding nor truncation.
    """
    backend: Any = type(tokenizer).__name__
    if tokenizer.is_fast:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        backend = {key: rules[key] for key in rules if key not in ("padding", "truncation")}
    content = {
        "vocabulary": tokenizer.get_vocab(),
        "backend": backend,
        "special_tokens": {key: str(token) for key, token in tokenizer.special_tokens_map.items()},
        "chat_template": tokenizer.chat_template,
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# Weights on the straight line between two models of one shape.

Weights = Mapping[str, Tensor]
"""Tensors by name, as ``state_dict`` gives them: a tied tensor stands there under all its names."""


def interpolated_weights(
    base: Weights, final: Weights, weight: float, *, layers: range | None = None
) -> dict[str, Tensor]:
    """The weights at ``weight`` on the line from ``base`` (0) through ``final`` (1).

    With ``layers``, counted from 0, only their weights are on that line; all others, embeddings and
    the output layer too, are those of ``final`` (arXiv:2608.29188).

    Equation: base + weight * (final - base) (WiSE-FT, arXiv:2109.01903, section 2; for Pass@k
        arXiv:2504.10478).
    Computed as: from the nearer end, base + weight * (final - base) below 1/2 and
        final - (1 - weight) * (final - base) from there on, in float32 (float64 if a tensor is),
        whatever precision the two were saved in.
    Limits: 0 and 1 give the two models to the bit. Elements that are equal in both are unchanged,
        infinite ones too; a tensor of other than floating-point numbers must be equal in both.

    Raises:
        ModelError: names or shapes differ, other tensors are tied, or a tensor that cannot be
            interpolated differs.
        SettingsError: the model does not have these ``layers``.
        ValueError: ``weight`` is not finite.
    """
    if not math.isfinite(weight):
        raise ValueError(f"the weight of an interpolation must be finite, got {weight}")
    _require_same_shape(base, final)
    numbers = {name: int(found[1]) for name in base if (found := _LAYER.search(name))}
    count = max(numbers.values(), default=-1) + 1
    if layers is not None and not 0 <= layers.start < layers.stop <= count:
        raise SettingsError(
            f"the model has the layers 0-{count} (the end is not part of a range), got "
            f"{layers.start}-{layers.stop}"
        )
    chosen = base.keys() if layers is None else {n for n, at in numbers.items() if at in layers}
    return {
        name: _between(name, tensor, final[name], weight if name in chosen else 1)
        for name, tensor in base.items()
    }


_LAYER = re.compile(r"\.(\d+)\.")
"""The number of a weight's layer: the first in its name (later ones are numbers of experts)."""


def _require_same_shape(base: Weights, final: Weights) -> None:
    if lacking := [*(base.keys() - final.keys()), *(final.keys() - base.keys())]:
        name = min(lacking)
        where = "first" if name in base else "second"
        raise ModelError(
            f"the two models do not have the same weights: {len(lacking)} are in only one of "
            f"them, for example {name} (in the {where})"
        )
    if wrong := [name for name in base if base[name].shape != final[name].shape]:
        shapes = f"{tuple(base[wrong[0]].shape)} and {tuple(final[wrong[0]].shape)}"
        raise ModelError(
            f"the two models do not have the same shapes: {len(wrong)} weights differ, the first "
            f"is {wrong[0]}: {shapes}"
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
    """Sets of names that share one tensor."""
    places: dict[tuple[object, ...], list[str]] = {}
    for name, tensor in weights.items():
        if tensor.numel():
            places.setdefault(_place(tensor), []).append(name)
    return {frozenset(names) for names in places.values() if len(names) > 1}


def load_policy(
    path: Path,
    settings: ModelSettings,
    *,
    initial: Path,
    seed: int | None = None,
    whole: PreTrainedModel | None = None,
) -> PreTrainedModel:
    """The model in ``path``: a whole one, or an adapter on the weights in ``initial``.

    With ``seed`` a whole model gets a new adapter if ``settings`` ask for one: training begins with
    it. ``whole``: the weights that get an adapter, if they are read already.
    """
    adapted = is_adapter(path)
    model = whole or load_model(
        initial if adapted else path,
        device=settings.device,
        attention=settings.attention,
        gradient_checkpointing=settings.gradient_checkpointing,
        weights=settings.weights,
        kernels=settings.kernels,
    )
    if adapted:
        read_adapter(model, path, base=directory_fingerprint(initial))
    elif settings.adapter is not None and seed is not None:
        base = directory_fingerprint(path)
        add_adapter(model, settings.adapter, base=base, seed=seed)
    return model.eval()


def load_whole(path: Path, *, initial: Path, weights: Precision = "float32") -> PreTrainedModel:
    """The model in ``path`` on the CPU as a plain one: an adapter is merged into its weights.

    Merged in float32, whatever the dtype of ``weights``. Attention is the eager one, which every
    architecture has.
    """
    adapted = is_adapter(path)
    model = load_model(initial if adapted else path, device="cpu", attention="eager")
    if adapted:
        read_adapter(model, path, base=directory_fingerprint(initial))
        merge_adapter(model)
    return model.to(getattr(torch, weights))
