import pytest
from tokenizers import pre_tokenizers
from tokenizers.processors import TemplateProcessing

from dph.errors import ModelError, SettingsError
from dph.model.prompts import encode_prompt, stop_token_ids

TEMPLATE = (
    "{% for m in messages %}{{ 'w3' if m['role'] == 'system' else 'w4' }} {{ m['content'] }} "
    "{% endfor %}{% if add_generation_prompt %}w5{% endif %}"
)


@pytest.fixture
def chatty(tokenizer):
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def test_a_string_is_encoded_as_it_is(tokenizer):
    assert encode_prompt(tokenizer, "w7 w9") == (7, 9)


def test_special_tokens_that_the_tokenizer_adds_by_itself_are_kept(tokenizer):
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="w3 $A", special_tokens=[("w3", 3)]
    )
    assert encode_prompt(tokenizer, "w7") == (3, 7)


def test_chat_makes_a_string_the_user_message_and_opens_the_answer(chatty):
    assert encode_prompt(chatty, "w7 w9", chat=True) == (4, 7, 9, 5)
    assert encode_prompt(chatty, "w7", chat=True, system_prompt="w8") == (3, 8, 4, 7, 5)


def test_messages_always_go_through_the_template(chatty):
    messages = ({"role": "user", "content": "w7"},)
    assert encode_prompt(chatty, messages) == (4, 7, 5)
    assert encode_prompt(chatty, messages, system_prompt="w8") == (3, 8, 4, 7, 5)


def test_messages_with_a_system_message_keep_their_own(chatty):
    messages = ({"role": "system", "content": "w6"}, {"role": "user", "content": "w7"})
    assert encode_prompt(chatty, messages, system_prompt="w8") == (3, 6, 4, 7, 5)


@pytest.mark.parametrize("prompt", ["w7", ({"role": "user", "content": "w7"},)])
def test_a_chat_without_a_template_is_refused(tokenizer, prompt):
    with pytest.raises(ModelError, match="no chat template"):
        encode_prompt(tokenizer, prompt, chat=True)


def test_a_template_that_refuses_the_messages_says_why(tokenizer):
    tokenizer.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(ModelError, match="System role not supported"):
        encode_prompt(tokenizer, "w7", chat=True)


def test_a_system_prompt_for_a_plain_prompt_is_refused(tokenizer):
    with pytest.raises(SettingsError, match="needs chat = true"):
        encode_prompt(tokenizer, "w7", system_prompt="w8")


def test_stop_tokens_are_the_ends_of_tokenizer_and_model_and_the_stop_strings(
    tokenizer, make_model
):
    model = make_model()
    assert stop_token_ids(tokenizer) == (1,)
    model.generation_config.eos_token_id = [9, 1, 7]
    assert stop_token_ids(tokenizer, model, ["w5", "w7"]) == (1, 5, 7, 9)
    model.generation_config.eos_token_id = 8
    assert stop_token_ids(tokenizer, model) == (1, 8)
    model.generation_config.eos_token_id = None
    tokenizer.eos_token = None
    assert stop_token_ids(tokenizer, model) == ()


def test_a_stop_string_in_the_vocabulary_counts_even_if_the_tokenizer_would_cut_it(tokenizer):
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split("7", "isolated")
    assert stop_token_ids(tokenizer, stop=["w7"]) == (1, 7)


@pytest.mark.parametrize("stop", ["w5 w6", "unknown", ""])
def test_a_stop_string_of_another_number_of_tokens_is_refused(tokenizer, stop):
    with pytest.raises(SettingsError, match=f"must be a single token; {stop!r} is"):
        stop_token_ids(tokenizer, stop=[stop])
