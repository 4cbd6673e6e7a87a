import pytest

from dph.errors import ModelError, SettingsError
from dph.model.loading import load_tokenizer
from dph.model.policies import tokenizer_fingerprint
from dph.model.prompts import chat_text, encode_prompt, set_template_variables, wants_chat
from tiny_models import build_tokenizer

THINKING = (
    "{% for message in messages %}{{ message.content }} {% endfor %}"
    "{% if enable_thinking is defined and enable_thinking is false %}w5{% else %}w6{% endif %}"
    "{% generation %}{% endgeneration %}"
)


@pytest.fixture
def tokenizer():
    made = build_tokenizer()
    made.chat_template = THINKING
    return made


def prompt(tokenizer):
    return encode_prompt(tokenizer, "w3 w4", chat=True)


def test_a_variable_is_what_the_template_reads(tokenizer):
    assert prompt(tokenizer) == (3, 4, 6)
    set_template_variables(tokenizer, {"enable_thinking": False})
    assert prompt(tokenizer) == (3, 4, 5)


def test_it_stays_with_the_tokenizer_and_counts_in_its_fingerprint(tokenizer, tmp_path):
    before = tokenizer_fingerprint(tokenizer)
    set_template_variables(tokenizer, {})
    assert tokenizer_fingerprint(tokenizer) == before
    set_template_variables(tokenizer, {"enable_thinking": False})
    assert tokenizer_fingerprint(tokenizer) != before
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")  # as in a checkpoint without a config
    assert prompt(load_tokenizer(tmp_path)) == (3, 4, 5)


@pytest.mark.parametrize("value", [True, False, 3, 0.5, 'a "quoted" {{ text }}'])
def test_values_arrive_as_they_are(tokenizer, value):
    tokenizer.chat_template = "{{ 'w3' if own == expected else 'w4' }}"
    set_template_variables(tokenizer, {"own": value})
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "w3"}], expected=value, tokenize=True, return_dict=False
    )
    assert ids == [3]


def test_a_variable_that_the_template_does_not_read_is_told(tokenizer):
    with pytest.raises(SettingsError, match=r"data\.template\.think: .* reads enable_thinking"):
        set_template_variables(tokenizer, {"think": False})
    with pytest.raises(ModelError, match="no chat template"):
        set_template_variables(build_tokenizer(), {"enable_thinking": False})


def test_auto_is_a_chat_where_there_is_a_template(tokenizer):
    assert wants_chat(tokenizer, "auto")
    assert not wants_chat(build_tokenizer(), "auto")
    assert wants_chat(build_tokenizer(), True)  # and is refused when a prompt is encoded


SAID = [
    {"role": "system", "content": "be <brief> & 'exact'"},
    {"role": "user", "content": "w3 w4"},
    {"role": "assistant", "content": "w5"},
    {"role": "user", "content": "w6"},
]
TEMPLATES = {
    "blocks and blanks": (
        "{{ bos_token }}\n  {% for m in messages %}\n<|{{ m['role'] }}|>{{ m.content | trim }}\n"
        "  {%- endfor %}\n{% if add_generation_prompt %}<|assistant|>{% endif %}\n"
    ),
    "loop controls": (
        "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{{ m | tojson }}"
        "{% endfor %}{{ eos_token }}"
    ),
    "namespaces": (
        "{% set seen = namespace(users=0) %}{% for m in messages if m.role == 'user' %}"
        "{% set seen.users = seen.users + 1 %}{% endfor %}{{ seen.users }} {{ tools is none }}"
    ),
    "macros and generation": (
        "{% macro turn(m) %}<{{ m.role }}>{{ m.content }}{% endmacro %}"
        "{% for m in messages %}{% generation %}{{ turn(m) }}{% endgeneration %}{% endfor %}"
        "{{ {'a': [1, 'é']} | tojson(indent=2) }}{{ strftime_now('%Y') }}"
    ),
    "what it is not given": THINKING + "{{ documents is defined }}{{ unheard_of }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_the_text_that_transformers_makes_of_it(name):
    made = build_tokenizer()
    made.chat_template = TEMPLATES[name]
    wanted = made.apply_chat_template(SAID, tokenize=False, add_generation_prompt=True)
    assert chat_text(TEMPLATES[name], SAID, made.special_tokens_map) == wanted


def test_a_template_that_refuses_or_reaches_out_is_told():
    for template, said in (
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for", "refuses the prompt"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
    ):
        with pytest.raises(ModelError, match=said):
            chat_text(template, SAID, {})
