"""The tokenizer loses nothing and keeps answers short."""

import pytest
from transformers import AutoTokenizer

from lab.worlds.small_model import EOS
from lab.worlds.sql.base_model import vocabulary
from lab.worlds.sql.domains import DOMAINS
from lab.worlds.sql.questions import STYLES, read_correctly, write_answer
from lab.worlds.sql.sums import all_sums


def answers(questions):
    return [write_answer(read_correctly(question), s) for question in questions for s in STYLES]


def test_decoding_gives_back_every_prompt_and_answer(questions, world_tokenizer):
    texts = [question.prompt for question in questions] + answers(questions)
    texts += [item.prompt for item in all_sums()] + ["calc: 7", "think: so 12"]
    texts += [domain.schema for domain in DOMAINS]
    for text in texts:
        ids = world_tokenizer(text)["input_ids"]
        assert ids[0] == world_tokenizer.bos_token_id
        assert world_tokenizer.unk_token_id not in ids
        assert world_tokenizer.decode(ids, skip_special_tokens=True) == text


def test_special_tokens_come_first_and_every_token_once():
    words = vocabulary()
    assert words[:4] == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert len(set(words)) == len(words)


def test_prompts_and_answers_fit_the_lengths_the_quickstart_uses(questions, world_tokenizer):
    encoded = world_tokenizer(answers(questions), add_special_tokens=False)["input_ids"]
    assert max(map(len, encoded)) + 1 <= 26
    prompts = world_tokenizer([question.prompt for question in questions])["input_ids"]
    assert max(map(len, prompts)) <= 32


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("SELECT * FROM singer", ["SELECT * FROM", "singer"]),
        ("key IN ( SELECT key FROM", ["key IN (", "SELECT", "key", "FROM"]),
        ("how many singer with age at least 8", None),
    ],
)
def test_fixed_phrases_are_one_token(world_tokenizer, text, tokens):
    expected = tokens or ["how many", "singer", "with", "age", "at least", "8"]
    assert world_tokenizer.tokenize(text) == expected


def test_an_unknown_word_becomes_the_unknown_token(world_tokenizer):
    ids = world_tokenizer("SELECTED singer", add_special_tokens=False)["input_ids"]
    assert ids[0] == world_tokenizer.unk_token_id != ids[1]


def test_a_saved_tokenizer_loads_the_usual_way(world_tokenizer, questions, tmp_path):
    world_tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.eos_token == EOS
    assert loaded.padding_side == "left"
    prompt = questions[0].prompt
    assert loaded(prompt)["input_ids"] == world_tokenizer(prompt)["input_ids"]
    assert loaded.decode(loaded(prompt)["input_ids"], skip_special_tokens=True) == prompt
