"""Tiny random models of the architectures that docs/performance.md tells of."""

import torch
import transformers as tf

from tiny_models import VOCABULARY

_GROUPED = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
_LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_EIGHT = {"head_dim": 8}
_TIED, _APART = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
_WINDOWS = {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"]}
_NARROW = {"sliding_window": 4}

ARCHITECTURES = {
    "Llama 3": (tf.LlamaConfig, _GROUPED | _APART | {"rope_parameters": _LLAMA_3}),
    "Llama 3, tied head": (tf.LlamaConfig, _GROUPED | _TIED | {"rope_parameters": _LLAMA_3}),
    "Qwen2.5": (tf.Qwen2Config, _GROUPED | _APART),
    "Qwen2.5, tied head": (tf.Qwen2Config, _GROUPED | _TIED),
    "Qwen3": (tf.Qwen3Config, _GROUPED | _TIED | _EIGHT),
    "Mistral": (tf.MistralConfig, _GROUPED | _APART | {"sliding_window": None}),
    "Mistral, a window of 4 tokens": (tf.MistralConfig, _GROUPED | _APART | _NARROW),
    "Gemma 2 (soft caps, windows)": (
        tf.Gemma2Config,
        _GROUPED | _EIGHT | _WINDOWS | {"attn_logit_softcapping": 2.0},
    ),
    "Gemma 3 (windows)": (tf.Gemma3TextConfig, _GROUPED | _EIGHT | _WINDOWS),
    "Phi-3": (tf.Phi3Config, _GROUPED | _APART | {"sliding_window": None}),
    "GPT-2": (tf.GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "SmolLM3": (tf.SmolLM3Config, _GROUPED | _TIED),
    "OLMo 2": (tf.Olmo2Config, _GROUPED | _APART),
    "Granite (scaled logits)": (tf.GraniteConfig, _GROUPED | _TIED | {"logits_scaling": 4.0}),
}


def save_architecture(name, directory):
    """Random weights of an architecture, saved in bfloat16 as most are."""
    config_class, own = ARCHITECTURES[name]
    common = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
    torch.manual_seed(0)
    config = config_class(**(common | {"initializer_range": 0.25} | own))
    model = tf.AutoModelForCausalLM.from_config(config)
    model.bfloat16().save_pretrained(directory)


def attention_of(name):
    """Soft caps need the eager attention of transformers."""
    return "eager" if "soft caps" in name else "sdpa"
