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
