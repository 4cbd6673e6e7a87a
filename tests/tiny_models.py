"""Tiny models of many families and a tokenizer, built in code: nothing is downloaded."""

import pytest
import torch
import transformers as tf
from packaging.version import Version
from tokenizers import Tokenizer, models, pre_tokenizers

VOCABULARY = 48
"""Three special tokens (pad 0, eos 1, unk 2) and the words w3 ... w47."""


def build_tokenizer():
    names = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(3, VOCABULARY))]
    backend = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )


WIDE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64}
GROUPED = WIDE | HEADS | {"num_key_value_heads": 2}
SMALL = {"n_layer": 2, "n_head": 4}
# The sdpa attention of older releases of transformers drops softcaps without a word.
EAGER = {"attn_implementation": "eager"}
FAMILIES = {
    "llama": (tf.LlamaConfig, tf.LlamaForCausalLM, WIDE | HEADS),
    "llama_gqa": (tf.LlamaConfig, tf.LlamaForCausalLM, GROUPED),
    "qwen2": (tf.Qwen2Config, tf.Qwen2ForCausalLM, GROUPED | {"tie_word_embeddings": True}),
    "gpt2": (tf.GPT2Config, tf.GPT2LMHeadModel, SMALL | {"n_embd": 32, "n_positions": 64}),
    "gemma2": (
        tf.Gemma2Config,
        tf.Gemma2ForCausalLM,
        GROUPED | EAGER | {"head_dim": 8, "final_logit_softcapping": 2.0, "sliding_window": 64},
    ),
    "mistral_window": (tf.MistralConfig, tf.MistralForCausalLM, GROUPED | {"sliding_window": 5}),
    "bloom": (tf.BloomConfig, tf.BloomForCausalLM, SMALL | {"hidden_size": 32}),
}

EIGHT = {"head_dim": 8, "use_cache": False}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
MORE_FAMILIES = {
    "qwen3": (tf.Qwen3Config, tf.Qwen3ForCausalLM, GROUPED | EIGHT),
    "mistral": (tf.MistralConfig, tf.MistralForCausalLM, GROUPED | {"sliding_window": None}),
    "gemma": (tf.GemmaConfig, tf.GemmaForCausalLM, GROUPED | EIGHT),
    "gemma3": (tf.Gemma3TextConfig, tf.Gemma3ForCausalLM, GROUPED | EIGHT | {"sliding_window": 64}),
    "gemma2_capped": (
        tf.Gemma2Config,
        tf.Gemma2ForCausalLM,
        GROUPED | EIGHT | EAGER | {"attn_logit_softcapping": 2.0, "sliding_window": 64},
    ),
    "mixtral": (tf.MixtralConfig, tf.MixtralForCausalLM, GROUPED | EXPERTS),
    "gpt_neox": (
        tf.GPTNeoXConfig,
        tf.GPTNeoXForCausalLM,
        WIDE | {"num_attention_heads": 4, "max_position_embeddings": 64},
    ),
    "granite": (tf.GraniteConfig, tf.GraniteForCausalLM, GROUPED | {"logits_scaling": 4.0}),
    "gpt_oss": (tf.GptOssConfig, tf.GptOssForCausalLM, GROUPED | EXPERTS | EIGHT),
    "mamba": (tf.MambaConfig, tf.MambaForCausalLM, {"hidden_size": 32, "num_hidden_layers": 2}),
}
PLAIN_FAMILIES = [
    *("llama", "llama_gqa", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gemma2_capped"),
    *("gemma3", "gpt2", "gpt_neox", "mixtral", "granite"),
]
"""Plain causal attention in every layer: prompts can be shared."""


def build_model(family="llama", *, seed=0, **changes):
    """A random model of about ten thousand weights whose next-token distributions are not flat."""
    if family == "mixtral" and Version(torch.__version__) < Version("2.9"):
        pytest.skip("torch 2.8 has no grouped_mm on a CPU, which transformers' mixtral calls")
    config_class, model_class, own = (FAMILIES | MORE_FAMILIES)[family]
    torch.manual_seed(seed)
    common = {
        "vocab_size": VOCABULARY,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
        "initializer_range": 0.25,
    }
    return model_class(config_class(**(common | own | changes))).eval()


def tiny_llama(tokenizer, width, *, seed=0, **more):
    """A random Llama of a tokenizer's vocabulary."""
    torch.manual_seed(seed)
    shape = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 2}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    common = shape | ends | {"num_attention_heads": 2, "vocab_size": len(tokenizer)}
    return tf.LlamaForCausalLM(tf.LlamaConfig(**(common | more))).eval()
