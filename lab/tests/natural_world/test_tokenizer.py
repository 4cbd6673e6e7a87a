import pytest

pytest.importorskip("sqlglot", reason="needs sqlglot (lab/benchmarks/requirements.txt)")

from lab.benchmarks.natural_world.questions import plain_words
from lab.benchmarks.natural_world.tokenizer import PHRASES, make_tokenizer, with_marks

QUERIES = (
    "select name from singer where home_town = 'New York' and age > 30",
    "select count ( * ) from singer as t1 where t1 . singer_id = 'O''Brien-2'",
    "select song_name from singer order by age limit 1",
)
QUESTION = 'how old is the singer of " New York " ?'


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer([*map(with_marks, QUERIES), QUESTION] * 3)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_decoded_as_it_was(tokenizer, query):
    ids = tokenizer(with_marks(query), add_special_tokens=False)["input_ids"]
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == query


def test_a_word_is_one_token_in_a_question_a_name_and_a_text(tokenizer):
    def tokens(text):
        return tokenizer.convert_ids_to_tokens(
            tokenizer(text, add_special_tokens=False)["input_ids"]
        )

    assert "singer" in tokens(QUESTION)
    assert tokens("singer_id")[0] == "singer"
    assert tokens(with_marks("'New York'"))[1:-1] == tokens("New York")


def test_phrases_are_single_tokens(tokenizer):
    for phrase in PHRASES:
        assert len(tokenizer(phrase, add_special_tokens=False)["input_ids"]) == 1


def test_questions_are_words_and_signs():
    assert plain_words("List  “Oslo's” cities, please!") == 'list " Oslo\'s " cities , please !'
