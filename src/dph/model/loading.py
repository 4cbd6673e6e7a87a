"""Loading a model and its tokenizer from a local directory."""

import contextlib
import logging
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer, processors
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging as transformers_logging

from dph.errors import ModelError, SettingsError
from dph.model.hub import reason
from dph.model.releases import (
    RECURRENT,
    causal_classes,
    checkpoint_contexts,
    keeps_state,
    lacks_attention,
    recurrent_layers,
)
from dph.recipe import Recipe
from dph.recipe.section import Device, Stored
from dph.recipe.tables import BITSANDBYTES, LIGER


def autocast(model: PreTrainedModel, dtype: str) -> AbstractContextManager[object]:
    """A context in which the model's matrix products run in ``dtype``; weights stay float32."""
    if dtype == "float32":
        return contextlib.nullcontext()
    if dtype == "bfloat16":
        return torch.autocast(model.device.type, dtype=torch.bfloat16)
    raise SettingsError(f'dtype must be "float32" or "bfloat16", got {dtype!r}')


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch ``model`` to evaluation; afterwards every module is in its earlier mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def new_tokenizer(
    backend: Tokenizer, *, pad: str, bos: str, eos: str, unknown: str | None = None
) -> PreTrainedTokenizerFast:
    """A tokenizer of ``backend`` with these special tokens; texts begin with ``bos``.

    Padding is on the left.
    """
    backend.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, backend.token_to_id(bos))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
        unk_token=unknown,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )


def require_usable(config: PreTrainedConfig, name: str) -> None:
    """Refuse a model that cannot be used, before weights or data are read.

    ``name`` is its name in messages.
    """
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ModelError(f"{name}: {kind} is an encoder-decoder, not a causal model")
    if not (classes := causal_classes(config)):
        raise ModelError(f"{name}: transformers has no causal language model of the kind {kind}")
    if keeps_state(config, classes):
        raise ModelError(f"{name}: {kind} is not supported: its layers {RECURRENT}")


def longest_context(config: PreTrainedConfig) -> int | None:
    """Tokens of prompt and answer that a model takes; None if its config does not say.

    LongRoPE has other frequencies for all rows of a batch if one is longer than the original
    context: a row's log-probs would depend on the others, so it ends there.
    """
    config = config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    context = getattr(config, "max_position_embeddings", None)
    long = rope.get("rope_type") == "longrope"
    return rope.get("original_max_position_embeddings", context) if long else context


_LOG = logging.getLogger(__name__)
_DAMAGED = (OSError, ValueError, RuntimeError, KeyError, ImportError, SafetensorError)


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model directory. Never reaches the network.

    Without a pad token it pads with the end-of-sequence token: rows are cut at their lengths, so
    the padding behind them is never read.

    Raises:
        ModelError: the directory or its tokenizer is missing or damaged, or the tokenizer has no
            end-of-sequence token.
    """
    adapted = (Path(path) / "adapter_config.json").is_file()  # its config.json is the base's
    directory = Path(path) if adapted else _model_directory(path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # the Rust tokenizer raises bare Exception for a damaged file
        raise ModelError(f"cannot load a tokenizer from {directory}: {reason(error)}") from error
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"the tokenizer in {directory} has no eos token, which answers need in order to end: "
            f"set tokenizer.eos_token and save it there"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(path: str | Path) -> PreTrainedConfig:
    """The config of a model directory. Never reaches the network.

    Raises:
        ModelError: the directory or its config is missing, damaged or of an unknown kind.
    """
    directory = _model_directory(path)
    try:
        return AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"cannot load a causal model from {directory}: {reason(error)}") from error


def load_model(
    path: str | Path,
    *,
    device: Device = "auto",
    attention: str = "sdpa",
    gradient_checkpointing: bool = False,
    weights: Stored = "float32",
    kernels: str = "torch",
) -> PreTrainedModel:
    """The causal language model of a directory, in evaluation mode.

    Reads safetensors only and never reaches the network. Every dropout rate of the config is set
    to 0 (and saved so): policy ratios between two forwards of the same weights must be 1.
    ``device="auto"`` takes the GPU if there is one. A model that transformers has no sdpa attention
    for gets the eager one, and a line in the log says so. ``weights="nf4"`` are rounded to 4 bits
    while they are read, except embeddings, norms and the output layer, which are in bfloat16.
    ``kernels="liger"``: the model computes only on a GPU.

    Raises:
        SettingsError: ``device="cuda"`` or ``kernels="liger"`` without a CUDA device, or a package
            is missing.
        ModelError: the directory is missing or damaged, lacks weights, or is no causal model.
    """
    directory = _model_directory(path)
    target = _device(device)
    _require_extras(weights, kernels)
    config = load_config(directory)
    _without_dropout(config)
    try:
        model, report = _read(directory, config, attention, _stored(weights, target))
    except _DAMAGED as error:
        why = _refused_attention(error, config, attention) or reason(error)
        raise ModelError(f"cannot load a causal model from {directory}: {why}") from error
    _require_all_weights(directory, report)
    for layer in model.modules():
        if hasattr(layer, _PACKS):
            setattr(layer, _PACKS, False)
    if gradient_checkpointing:
        _checkpoint_activations(model)
    _make_storable(model.generation_config)
    if kernels == "liger":
        _take_liger(model)
    return model.eval().to(target)


_PACKS = "support_avx512bf16_for_cpu"
"""Layers of bitsandbytes with it repack their weights in evaluation, and have no gradient then."""


def _make_storable(stored: GenerationConfig) -> None:
    """Change what transformers loads and from 5.5 on does not save: no checkpoint would be."""
    if (stored.pad_token_id or 0) < 0:
        stored.pad_token_id = None
    try:
        stored.validate(strict=True)
    except ValueError:  # such as a temperature without do_sample
        stored.do_sample = True


def _require_extras(weights: Stored, kernels: str) -> None:
    for extra, taken in ((BITSANDBYTES, weights == "nf4"), (LIGER, kernels == "liger")):
        if taken and not extra.is_installed:
            raise SettingsError(extra.missing)
    if kernels == "liger" and not torch.cuda.is_available():
        raise SettingsError('model.kernels is "liger", but there is no CUDA device; use "torch"')


def _stored(weights: Stored, target: torch.device) -> dict[str, Any]:
    if weights != "nf4":
        return {"dtype": getattr(torch, weights)}
    place = torch.cuda.current_device() if target.type == "cuda" else "cpu"
    four = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=weights,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {"dtype": torch.bfloat16, "quantization_config": four, "device_map": {"": place}}


def _take_liger(model: PreTrainedModel) -> None:
    """Let Liger compute norms, rotary embeddings and gated layers of ``model``.

    For the rest of the process, rotary embeddings on CUDA change for all models of this kind.
    """
    from liger_kernel.transformers import monkey_patch  # noqa: PLC0415  # an extra; loads Triton

    config, kind, release = model.config, model.config.model_type, version("liger-kernel")
    if kind not in monkey_patch.MODEL_TYPE_TO_APPLY_LIGER_FN:
        _say_once(
            logging.WARNING, "Liger %s has no kernels for %s: torch's are used", release, kind
        )
        return
    gate = getattr(config, "hidden_activation", None) or getattr(config, "hidden_act", "")
    names = vars(sys.modules[type(model).__module__])
    before = dict(names)
    monkey_patch._apply_liger_kernel_to_instance(
        model,
        rope=True,
        rms_norm=True,
        swiglu=gate in ("silu", "swish"),
        geglu=gate == "gelu_pytorch_tanh",
        cross_entropy=False,
        fused_linear_cross_entropy=False,
    )
    for name, own in before.items():
        if (new := names[name]) is not own:
            keep = isinstance(own, type | partial)  # models that are made later are as before
            names[name] = own if keep else partial(_by_device, own, new)
    _say_once(logging.INFO, "Liger %s computes norms, rotary and gates of %s", release, kind)


def _by_device(plain: Any, on_cuda: Any, tensor: Tensor, *others: Any, **named: Any) -> Any:
    return (on_cuda if tensor.is_cuda else plain)(tensor, *others, **named)


def _read(
    directory: Path, config: PreTrainedConfig, attention: str, stored: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The model, and a report of missing and misshapen weights."""

    def read(attention: str) -> Any:
        with _without_progress_bar():
            return AutoModelForCausalLM.from_pretrained(
                directory,
                config=config,
                **stored,
                attn_implementation=attention,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # told by name afterwards
            )

    try:
        model, report = read(attention)
    except ValueError as error:
        if attention != "sdpa" or not lacks_attention(error) or recurrent_layers(config):
            raise
        said = '%s has no attention "sdpa": model.attention = "eager" is used'
        _say_once(logging.WARNING, said, config.model_type)
        model, report = read("eager")
    return model, report


@lru_cache
def _say_once(level: int, message: str, *arguments: str) -> None:
    """Log once in a process: a run loads its model several times."""
    _LOG.log(level, message, *arguments)


def _refused_attention(error: Exception, config: PreTrainedConfig, attention: str) -> str:
    """The fault of ``model.attention``; '' if something else is wrong."""
    if not lacks_attention(error):
        return ""
    if recurrent_layers(config):
        return f"{config.model_type} is not supported: its layers {RECURRENT}"
    return f'{config.model_type} has no attention "{attention}"; set model.attention = "eager"'


def _model_directory(path: str | Path) -> Path:
    directory = Path(path)
    if not (directory / "config.json").is_file():
        what = "has no config.json" if directory.is_dir() else "is not a directory"
        raise ModelError(f"{directory} {what}: need the directory of a saved transformers model")
    return directory


def _require_all_weights(directory: Path, report: Mapping[str, Collection[Any]]) -> None:
    if missing := sorted(report["missing_keys"]):
        raise ModelError(
            f"{len(missing)} weights are missing in {directory}, the first is {missing[0]}"
        )
    if wrong := sorted(report["mismatched_keys"]):
        name, found, wanted = wrong[0]
        raise ModelError(
            f"{len(wrong)} weights in {directory} do not have the shape that its config.json "
            f"gives, the first is {name}: {tuple(found)}, not {tuple(wanted)}"
        )


def on_this_device(recipe: Recipe) -> Recipe:
    """The recipe with ``auto`` decided for the device that it takes on this machine.

    A GPU that it asks for but this machine lacks is taken to have 16-bit products.
    """
    asked, here = recipe.model.device, torch.cuda.is_available()
    cuda = asked == "cuda" or (asked == "auto" and here)
    narrow = cuda and (not here or torch.cuda.is_bf16_supported(including_emulation=False))
    return recipe.on_device(cuda=cuda, bfloat16=narrow)


def computed_by(device: Device = "auto", kernels: str = "torch") -> str:
    """The kernels of a device, for `dph._base.provenance.versions`.

    A processor's by their instructions (AVX512), followed by a GPU's name and CUDA's release, and
    by Liger's release if it computes.
    """
    processor = torch.backends.cpu.get_cpu_capability()
    if _device(device).type == "cpu":
        return processor
    found = f"{processor}, {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    return f"{found}, Liger {version('liger-kernel')}" if kernels == "liger" else found


def _device(name: str) -> torch.device:
    if name not in ("auto", "cpu", "cuda"):
        raise SettingsError(f'device must be "auto", "cpu" or "cuda", got {name!r}')
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise SettingsError('device is "cuda", but there is no CUDA device; use "cpu" or "auto"')
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def _without_dropout(config: PreTrainedConfig) -> None:
    for part in (config, config.get_text_config()):
        for name, value in list(vars(part).items()):
            if "drop" in name and isinstance(value, float):
                setattr(part, name, 0.0)


def _checkpoint_activations(model: PreTrainedModel) -> None:
    # Newer releases of transformers warn about the older name.
    newer = getattr(model, "activation_checkpointing_enable", None)
    enable = newer or model.gradient_checkpointing_enable
    enable({"use_reentrant": False, "context_fn": checkpoint_contexts})


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            transformers_logging.enable_progress_bar()
