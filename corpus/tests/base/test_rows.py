import pytest

from dph.errors import DataError, ModelError
from dph.model.prompts import encode_prompt
from dph_corpus.base.sft import IGNORED, encode_row, read_sft_rows
from dph_corpus.base.tokens import BEGIN, END, train_tokenizer
from small_corpora import rows_file

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer():
    made = train_tokenizer(iter(["user: assistant: two and two is four five six"]), vocabulary=300)
    made.chat_template = TEMPLATE
    return made


def learnt(row, tokenizer):
    return tokenizer.decode([label for label in row.labels if label != IGNORED])


def test_the_response_and_its_end_are_learnt_and_the_prompt_is_read_as_in_rl(tokenizer):
    answer = {"prompt": "two and", "response": f" two{END} "}
    row = encode_row(answer, tokenizer, chat=False, place="r")
    prompt = encode_prompt(tokenizer, "two and")
    assert row.ids[: len(prompt)] == prompt
    assert set(row.labels[: len(prompt)]) == {IGNORED}
    assert learnt(row, tokenizer) == f" two{END} {END}"
    assert tokenizer.decode(row.ids) == f"{BEGIN}two and two{END} {END}"
    assert row.ids.count(tokenizer.eos_token_id) == 1, "one that the text spells out is text"
    assert row.learnt == len(row.ids) - len(prompt)


def test_of_a_conversation_all_that_the_assistant_says_is_learnt(tokenizer):
    turns = [("user", "two"), ("assistant", f"4{END}"), ("user", "and"), ("assistant", "six")]
    messages = [{"role": role, "content": content} for role, content in turns]
    row = encode_row({"messages": messages}, tokenizer, chat=True, place="r")
    assert learnt(row, tokenizer) == f"4{END}{END}six{END}"
    assert row.ids.count(tokenizer.eos_token_id) == len(turns)
    assert tokenizer.decode(row.ids) == (
        f"{BEGIN}user: two{END}assistant: 4{END}{END}user: and{END}assistant: six{END}"
    )


def test_a_prompt_of_a_chat_has_the_tokens_that_rl_gives_it_as_text_or_messages(tokenizer):
    row = encode_row({"prompt": "two", "response": "four"}, tokenizer, chat=True, place="r")
    prompt = encode_prompt(tokenizer, "two", chat=True)
    assert row.ids[: len(prompt)] == prompt
    assert row.labels[len(prompt) - 1] == IGNORED != row.labels[len(prompt)]
    turns = {"prompt": [{"role": "user", "content": "two"}], "response": "four"}
    assert encode_row(turns, tokenizer, chat=True, place="r") == row


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("text", "a row must be an object, got 'text'"),
        ({"prompt": "a"}, "response must be a text, got None"),
        ({"prompt": "a", "response": ""}, "response must be a text, got ''"),
        ({"prompt": 3, "response": "a"}, "messages must be a list of role and content, got 3"),
        ({"messages": [{"role": "user", "content": "a"}]}, "the assistant says nothing"),
    ],
)
def test_a_malformed_row_is_told_with_its_place(tokenizer, row, said):
    with pytest.raises(DataError, match=f"line 3: {said}"):
        encode_row(row, tokenizer, chat=False, place="line 3")


def test_rows_that_do_not_fit_are_left_out_and_counted(tokenizer, tmp_path):
    rows = [{"prompt": "two", "response": "four"}, {"prompt": "two", "response": "five " * 40}]
    path = rows_file(tmp_path / "rows.jsonl", rows)
    found = read_sft_rows([path], tokenizer, chat=False, max_tokens=20)
    assert len(found.rows) == 1
    assert found.left_out == {"too_long": 1}
    with pytest.raises(DataError, match=r"no row is left .* 2 are longer than max_tokens=2"):
        read_sft_rows([path], tokenizer, chat=False, max_tokens=2)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (None, "no chat template, which rows of messages need"),
        (
            "{{ messages | length }}{{ messages[-1].content }}",
            "line 3: the chat template rewrites earlier turns",
        ),
    ],
)
def test_without_a_template_that_keeps_earlier_turns_a_chat_is_refused(template, said):
    other = train_tokenizer(iter(["a b"]), vocabulary=300)
    other.chat_template = template
    with pytest.raises(ModelError, match=said):
        encode_row({"prompt": "a", "response": "b"}, other, chat=True, place="line 3")
