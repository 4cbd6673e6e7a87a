import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.dedup.signatures import jaccard, shingle_hashes, shingle_hashes_of, shingle_set

WORDS = st.lists(st.sampled_from("abc"), max_size=40).map(" ".join)


def shingles(text):
    words = re.findall(r"\w+", text)
    return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}


@given(WORDS, WORDS)
def test_the_similarity_is_that_of_the_sets_of_five_words_in_a_row(first, second):
    one, two = shingles(first), shingles(second)
    expected = len(one & two) / len(one | two) if one | two else 0.0
    assert jaccard(shingle_set(first), shingle_set(second)) == expected


def test_the_order_of_the_words_counts():
    first, second = (shingle_set(text) for text in ("a b c d e", "e d c b a"))
    assert jaccard(first, second) == 0.0


@pytest.mark.parametrize(("words", "count"), [(0, 0), (4, 0), (5, 1), (9, 5)])
def test_below_five_words_there_is_no_shingle(words, count):
    assert len(shingle_hashes("x " * words)) == count


@given(st.lists(WORDS, max_size=6), st.sampled_from([5, 10]))
def test_several_texts_together_have_the_shingles_of_each(texts, length):
    hashes, counts = shingle_hashes_of(texts, length)
    each = [shingle_hashes(text, length).tolist() for text in texts]
    assert counts.tolist() == [len(found) for found in each]
    assert hashes.tolist() == [value for found in each for value in found]
