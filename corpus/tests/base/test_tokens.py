from itertools import pairwise

import numpy as np
import pytest

from dph.errors import DataError
from dph.model.policies import tokenizer_fingerprint
from dph_corpus.base.recipes import TokenizerSettings
from dph_corpus.base.tokens import (
    BEGIN,
    END,
    PAD,
    Blocks,
    Curriculum,
    corpus_tokens,
    tokenizer_for,
    train_tokenizer,
)
from small_corpora import numbered, small_corpus
from small_lm import code_corpus


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(["text 1 2 3"]), vocabulary=300)


def test_documents_follow_each_other_in_order_each_with_its_beginning_and_end(tmp_path, tokenizer):
    corpus = small_corpus(tmp_path / "c", numbered(200, f"text {{}} {END}\n"), shards=2)
    found = corpus_tokens(corpus, tokenizer, tmp_path / "tokens", most=10**9)
    expected = [
        token
        for document in corpus.documents()
        for ids in [tokenizer.encode(document.text, split_special_tokens=True)]
        for token in (*ids, tokenizer.eos_token_id)
    ]
    assert np.concatenate(found).tolist() == expected
    assert expected.count(tokenizer.eos_token_id) == 200


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


def blocks(*lengths, name="corpus", length=4):
    """Shards whose tokens are 0, 1, 2, ... over all of them."""
    bounds = np.cumsum([0, *lengths])
    shards = [np.arange(a, b, dtype=np.uint32) for a, b in pairwise(bounds)]
    return Blocks(shards, length, seed=0, name=name)


def test_blocks_are_cut_in_order_and_the_rest_of_a_shard_is_left_out():
    assert [blocks(10, 5).read(i).tolist() for i in range(3)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [10, 11, 12, 13],
    ]


def test_each_pass_reads_every_block_once_in_an_order_of_its_own():
    found = blocks(40)
    orders = [found.order(turn).tolist() for turn in range(3)]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3


def test_a_curriculum_is_one_mixture_then_the_next_whatever_is_read_first():
    parts = [(blocks(8, name="corpus"), 3), (blocks(4, name="annealing"), 2)]
    read = [Curriculum(parts)[i]["input_ids"].tolist() for i in range(5)]
    assert len(Curriculum(parts)) == 5
    assert sorted(read[:2]) == [[0, 1, 2, 3], [4, 5, 6, 7]], "the first pass has both blocks"
    assert read[3:] == [[0, 1, 2, 3]] * 2, "annealing passes over its only block again"
    one = Curriculum(parts)[0]
    assert one["labels"].tolist() == one["input_ids"].tolist(), "every token is a target"
    backwards = Curriculum(parts)
    assert [backwards[i]["input_ids"].tolist() for i in (4, 3, 2, 1, 0)] == read[::-1]


def test_behind_the_last_sequence_there_is_none():
    with pytest.raises(IndexError):
        Curriculum([(blocks(8), 1)])[1]
    with pytest.raises(IndexError):
        blocks(8).read(2)


def test_a_mixture_without_a_whole_sequence_is_told_with_its_size():
    with pytest.raises(DataError, match="the corpus has 3 tokens, too few for one sequence of 4"):
        blocks(3)
