import pytest

from dph.errors import DataError
from dph.model.policies import tokenizer_fingerprint
from dph_corpus.base.recipes import TokenizerSettings
from dph_corpus.base.tokens import BEGIN, END, PAD, tokenizer_for, train_tokenizer
from small_lm import code_corpus

TEXTS = ["def f(x):\n    return x + 1234\n", "SELECT count ( * ) FROM t WHERE é < 5"]


def test_every_text_comes_back_and_digits_stand_alone():
    tokenizer = train_tokenizer(iter(TEXTS), vocabulary=400)
    for text in [*TEXTS, "\t\x00 新しい\r\n", "1234"]:
        ids = tokenizer.encode(text)
        assert ids[0] == tokenizer.bos_token_id
        assert tokenizer.decode(ids[1:]) == text
    assert tokenizer.tokenize("1234") == ["1", "2", "3", "4"]


def test_the_special_tokens_are_the_first_and_no_text_makes_the_vocabulary_larger():
    tokenizer = train_tokenizer(iter(TEXTS * 9), vocabulary=300)
    assert tokenizer.convert_tokens_to_ids([PAD, BEGIN, END]) == [0, 1, 2]
    assert len(tokenizer) <= 300


def test_one_that_is_trained_is_kept_and_the_same_for_the_same_corpus(tmp_path):
    corpus = code_corpus(tmp_path / "corpus")
    settings = TokenizerSettings(vocabulary=300)
    first = tokenizer_for(settings, [corpus], tmp_path / "a")
    again = tokenizer_for(settings, [corpus], tmp_path / "b")
    kept = tokenizer_for(TokenizerSettings(vocabulary=280), [corpus], tmp_path / "a")
    assert tokenizer_fingerprint(first) == tokenizer_fingerprint(again)
    assert tokenizer_fingerprint(kept) == tokenizer_fingerprint(first)


def test_without_text_there_is_none():
    with pytest.raises(DataError, match="no text to train a tokenizer on"):
        train_tokenizer(iter(()), vocabulary=300)
