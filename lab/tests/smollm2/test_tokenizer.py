import pytest
from tokenizers.pre_tokenizers import ByteLevel

from dph.errors import DataError
from lab.smollm2.convert import GgufFile, smollm2_tokenizer, tokenizer_config

LETTERS = sorted(ByteLevel.alphabet())
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *LETTERS, "ab", "12", "Ġa"]
FACTS = {
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


def a_file(**changed):
    return GgufFile(facts=FACTS | changed, weights={}, quantised=())


def test_letters_merge_digits_stay_apart_and_special_tokens_are_whole():
    tokenizer = smollm2_tokenizer(a_file())
    tokens = tokenizer.encode("ab12 a<|im_end|>").tokens
    assert tokens == ["ab", "1", "2", "Ġa", "<|im_end|>"]


def test_every_text_comes_back_as_it_was():
    tokenizer = smollm2_tokenizer(a_file())
    for text in ("x = 4.5\n\tä 中 🙂", "  12 ab  "):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_special_tokens_have_their_parts():
    config = tokenizer_config(a_file())
    named = [config[f"{part}_token"] for part in ("bos", "eos", "pad", "unk")]
    assert named == ["<|im_start|>", "<|im_end|>", "<|im_end|>", "<|endoftext|>"]


def test_a_tokenizer_of_another_kind_is_refused():
    with pytest.raises(DataError, match=r"\('llama', 'smollm'\), this reads"):
        smollm2_tokenizer(a_file(**{"tokenizer.ggml.model": "llama"}))
