import numpy as np
import pytest

from dph.errors import DataError
from lab.smollm2.convert import GgufFile, llama_config, llama_weights, rotated_halves

FACTS = {
    "general.architecture": "llama",
    "llama.vocab_size": 48,
    "llama.embedding_length": 8,
    "llama.feed_forward_length": 12,
    "llama.block_count": 1,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.rope.dimension_count": 4,
    "llama.rope.freq_base": 100000.0,
    "llama.context_length": 64,
    "llama.attention.layer_norm_rms_epsilon": float(np.float32(1e-5)),
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.padding_token_id": 2,
}


def a_file(**weights):
    named = {name.replace("__", "."): np.asarray(w, np.float32) for name, w in weights.items()}
    return GgufFile(facts=FACTS, weights=named, quantised=())


def test_rows_that_turn_together_move_into_the_halves_of_their_head():
    # Two heads of four rows: pairs (0, 1), (2, 3) and (4, 5), (6, 7).
    rows = np.arange(8, dtype=np.float32)[:, None]
    assert rotated_halves(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_queries_and_keys_are_ordered_by_their_own_number_of_heads_and_nothing_else_is():
    rows = np.arange(8)[:, None]
    found = llama_weights(
        a_file(
            blk__0__attn_q__weight=rows,
            blk__0__attn_k__weight=rows,
            blk__0__attn_v__weight=rows,
            token_embd__weight=rows,
        )
    )
    attention = "model.layers.0.self_attn."
    assert found[f"{attention}q_proj.weight"][:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    assert found[f"{attention}k_proj.weight"][:, 0].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert found[f"{attention}v_proj.weight"][:, 0].tolist() == list(range(8))
    assert found["model.embed_tokens.weight"][:, 0].tolist() == list(range(8))


def test_numbers_of_single_precision_are_written_as_somebody_wrote_them():
    assert llama_config(a_file())["rms_norm_eps"] == 1e-5


def test_the_head_is_the_embedding_where_the_file_has_none():
    assert llama_config(a_file())["tie_word_embeddings"]
    assert not llama_config(a_file(output__weight=[[0.0]]))["tie_word_embeddings"]


def test_another_architecture_and_a_weight_of_no_llama_are_refused_by_name():
    other = GgufFile(facts=FACTS | {"general.architecture": "mamba"}, weights={}, quantised=())
    with pytest.raises(DataError, match="holds a 'mamba'"):
        llama_config(other)
    with pytest.raises(DataError, match=r"weight 'blk.0.ssm.weight', which no Llama has"):
        llama_weights(a_file(blk__0__ssm__weight=[0.0]))
    with pytest.raises(DataError, match=r"does not give llama\.vocab_size"):
        llama_config(GgufFile(facts={"general.architecture": "llama"}, weights={}, quantised=()))
