from math import log

import pytest

from dph.tasks.sql.retrieval import BM25


def test_only_texts_that_share_a_word_are_found():
    assert set(BM25(["a dog", "a cat", "dogs"], list("012")).search("dog", limit=9)) == {0, 2}


def test_equal_scores_go_by_the_key():
    assert BM25(["cat", "cat", "cat"], ["c", "a", "b"]).search("cats", limit=2) == [1, 2]


def test_a_rare_word_counts_for_more_than_a_common_one():
    texts = ["red house", "red car", "red boat", "blue house"]
    assert BM25(texts, list("abcd")).search("blue red", limit=4)[0] == 3


def test_a_short_text_comes_before_a_long_one():
    assert BM25(["cat and many other animals", "cat"], list("ab")).search("cat", limit=2) == [1, 0]


def test_the_order_is_that_of_the_equation():
    # Two texts of lengths 1 and 3, mean 2; "cat" is in both, once and twice.
    index = BM25(["cat", "cat cat dog"], list("ab"))
    idf = log(1 + 0.5 / 2.5)
    first = idf * 1 / (1 + 0.9 * (0.6 + 0.4 * 1 / 2))
    second = idf * 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2))
    assert index.search("cat", limit=2) == ([0, 1] if first > second else [1, 0])
    assert index._norms == pytest.approx([0.9 * 0.8, 0.9 * 1.2])


def test_nothing_is_found_in_nothing():
    assert BM25([], []).search("cat", limit=3) == []
    assert BM25(["the"], ["a"]).search("the", limit=3) == []
