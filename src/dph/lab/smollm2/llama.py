"""Config and weights of a Llama as transformers has them, of those that a GGUF file has."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dph.errors import DataError
from dph.lab.smollm2.gguf_file import GgufFile, Weights

_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_IN_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


def llama_config(file: GgufFile) -> dict[str, Any]:
    """What stands in ``config.json``.

    Raises:
        DataError: the file holds another architecture, or lacks a fact.
    """
    if (kind := file.fact("general.architecture")) != "llama":
        raise DataError(f"the model file holds a {kind!r}, this reads a 'llama'")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": file.fact("llama.vocab_size"),
        "hidden_size": file.fact("llama.embedding_length"),
        "intermediate_size": file.fact("llama.feed_forward_length"),
        "num_hidden_layers": file.fact("llama.block_count"),
        "num_attention_heads": file.fact("llama.attention.head_count"),
        "num_key_value_heads": file.fact("llama.attention.head_count_kv"),
        "head_dim": file.fact("llama.rope.dimension_count"),
        "max_position_embeddings": file.fact("llama.context_length"),
        "rms_norm_eps": _as_written(file.fact("llama.attention.layer_norm_rms_epsilon")),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": _as_written(file.fact("llama.rope.freq_base")),
        },
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in file.weights,
        "bos_token_id": file.fact("tokenizer.ggml.bos_token_id"),
        "eos_token_id": file.fact("tokenizer.ggml.eos_token_id"),
        "pad_token_id": file.fact("tokenizer.ggml.padding_token_id"),
    }


def llama_weights(file: GgufFile) -> Weights:
    """The weights by transformers' names, in its order of rows.

    Raises:
        DataError: a weight has a name that a Llama lacks.
    """
    heads = {
        "attn_q": file.fact("llama.attention.head_count"),
        "attn_k": file.fact("llama.attention.head_count_kv"),
    }
    named: dict[str, NDArray[np.float32]] = {}
    for name, weight in file.weights.items():
        layer = _LAYER.fullmatch(name)
        if name in _WHOLE:
            named[_WHOLE[name]] = weight
        elif layer and layer[2] in _IN_A_LAYER:
            rows = rotated_halves(weight, heads[layer[2]]) if layer[2] in heads else weight
            named[f"model.layers.{layer[1]}.{_IN_A_LAYER[layer[2]]}.weight"] = rows
        else:
            raise DataError(f"the model file has a weight {name!r}, which no Llama has")
    return named


def rotated_halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """The rows of queries or keys, with what one rotation turns half a head apart.

    Rotary embeddings turn pairs of rows. GGUF keeps a pair side by side (rows 2i and 2i + 1 of a
    head), transformers keeps it in the two halves of the head (rows i and i + d/2).
    """
    pairs = weight.reshape(heads, -1, 2, weight.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)


def _as_written(value: float) -> float:
    """A float32 as the shortest decimal that is read back as it: 1e-05, not 9.9999997e-06."""
    return float(str(np.float32(value)))
