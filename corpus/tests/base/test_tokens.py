import numpy as np
import pytest

from dph.errors import DataError
from dph_corpus.base.tokens import corpus_tokens, train_tokenizer
from small_corpora import numbered, small_corpus


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(["text 1 2 3"]), vocabulary=300)


def test_documents_follow_each_other_in_order_each_with_its_beginning_and_end(tmp_path, tokenizer):
    corpus = small_corpus(tmp_path / "c", numbered(200), shards=2)
    found = corpus_tokens(corpus, tokenizer, tmp_path / "tokens", most=10**9)
    expected = [
        token
        for document in corpus.documents()
        for token in (*tokenizer.encode(document.text), tokenizer.eos_token_id)
    ]
    assert np.concatenate(found).tolist() == expected


def test_no_more_shards_are_read_than_are_needed(tmp_path, tokenizer):
    corpus = small_corpus(tmp_path / "c", numbered(200), shards=4)
    assert len(corpus_tokens(corpus, tokenizer, tmp_path / "tokens", most=1)) == 1
    assert len([*(tmp_path / "tokens").iterdir()]) == 1


def test_another_tokenizer_makes_files_of_its_own(tmp_path, tokenizer):
    corpus = small_corpus(tmp_path / "c", numbered(20))
    other = train_tokenizer(iter(["tetete tetete xtxtxt xtxtxt"]), vocabulary=300)
    first = corpus_tokens(corpus, tokenizer, tmp_path / "tokens", most=1)[0]
    second = corpus_tokens(corpus, other, tmp_path / "tokens", most=1)[0]
    assert first.tolist() != second.tolist()
    assert (
        corpus_tokens(corpus, tokenizer, tmp_path / "tokens", most=1)[0].tolist() == first.tolist()
    )


def test_an_empty_corpus_is_an_error(tmp_path, tokenizer):
    with pytest.raises(DataError, match="has no documents to learn from"):
        corpus_tokens(small_corpus(tmp_path / "c", []), tokenizer, tmp_path / "tokens", most=1)
