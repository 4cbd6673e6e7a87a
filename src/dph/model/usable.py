"""Models that can be neither sampled nor trained, told by their config alone."""

import inspect

from transformers import AutoModelForCausalLM, PreTrainedConfig

from dph.errors import ModelError
from dph.model.attention.probing import RECURRENT, recurrent_layers


def require_usable(config: PreTrainedConfig, name: str) -> None:
    """Refuse such a model before weights or data are read; ``name`` is what messages call it.

    Raises:
        ModelError: it is an encoder-decoder, transformers has no causal model of its kind, or its
            layers keep a recurrent state.
    """
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ModelError(f"{name}: {kind} is an encoder-decoder, not a causal model")
    if type(config) not in AutoModelForCausalLM._model_mapping:
        raise ModelError(f"{name}: transformers has no causal language model of the kind {kind}")
    if not _caches_tokens(config):
        raise ModelError(f"{name}: {kind} is not supported: its layers {RECURRENT}")


def _caches_tokens(config: PreTrainedConfig) -> bool:
    found = AutoModelForCausalLM._model_mapping[type(config)]
    classes = found if isinstance(found, tuple) else (found,)
    takes = (inspect.signature(cls.forward).parameters for cls in classes)
    return any("past_key_values" in names for names in takes) and not recurrent_layers(config)
