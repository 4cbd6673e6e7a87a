import pytest
import torch
from transformers import AutoTokenizer

from dph.model.loading import load_model
from dph.model.policies import tokenizer_fingerprint, weight_fingerprint


@pytest.mark.parametrize("family", ["llama_gqa", "qwen2", "gpt2", "mistral_window"])
def test_weights_keep_their_fingerprint_through_saving_and_loading(make_model, tmp_path, family):
    model = make_model(family)
    model.save_pretrained(tmp_path)
    assert weight_fingerprint(load_model(tmp_path, device="cpu")) == weight_fingerprint(model)


def test_one_changed_bit_changes_the_fingerprint(make_model):
    model = make_model()
    before = weight_fingerprint(model)
    bits = model.model.norm.weight.data.view(torch.int32)
    bits[0] ^= 1
    assert weight_fingerprint(model) != before
    bits[0] ^= 1
    assert weight_fingerprint(model) == before


def test_tied_and_untied_weights_of_equal_values_differ(make_model):
    tied = make_model(tie_word_embeddings=True)
    untied = make_model(tie_word_embeddings=False)
    untied.load_state_dict(tied.state_dict())
    assert weight_fingerprint(tied) != weight_fingerprint(untied)


def test_dtype_and_layout_count_as_values_do_not_hide_them(make_model):
    model = make_model()
    assert weight_fingerprint(model) != weight_fingerprint(make_model().to(torch.bfloat16))
    before = weight_fingerprint(model)
    # The same matrix stored column by column is the same matrix.
    weight = model.lm_head.weight
    weight.data = weight.data.T.contiguous().T
    assert weight_fingerprint(model) == before


def test_a_tokenizer_keeps_its_fingerprint_through_saving_loading_and_padding(tokenizer, tmp_path):
    before = tokenizer_fingerprint(tokenizer)
    tokenizer.padding_side = "left"
    tokenizer(["w3", "w4 w5"], padding=True, truncation=True, max_length=3)
    assert tokenizer_fingerprint(tokenizer) == before
    for folder in ("a", "b"):
        tokenizer.save_pretrained(tmp_path / folder)
        loaded = AutoTokenizer.from_pretrained(tmp_path / folder)
        assert tokenizer_fingerprint(loaded) == before


def test_vocabulary_special_tokens_and_template_change_the_fingerprint(tokenizer):
    seen = [tokenizer_fingerprint(tokenizer)]
    tokenizer.chat_template = "{{ messages }}"
    seen.append(tokenizer_fingerprint(tokenizer))
    tokenizer.eos_token = "w9"
    seen.append(tokenizer_fingerprint(tokenizer))
    tokenizer.add_tokens(["new"])
    seen.append(tokenizer_fingerprint(tokenizer))
    assert len(set(seen)) == 4


def test_a_tokenizer_in_python_is_known_by_class_and_vocabulary(tokenizer):
    class Slow:
        is_fast = False
        special_tokens_map = tokenizer.special_tokens_map
        chat_template = None

        def __init__(self, extra):
            self.extra = extra

        def get_vocab(self):
            return {"a": 0} | self.extra

    first, second = tokenizer_fingerprint(Slow({})), tokenizer_fingerprint(Slow({"b": 1}))
    assert first != second
    assert first == tokenizer_fingerprint(Slow({}))
