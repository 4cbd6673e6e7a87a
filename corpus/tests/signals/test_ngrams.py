from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.signals.words import DUPLICATED, TOP, _together, ngram_shares


def grams(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def plain_top(words, n):
    """As the definition says it: the first of the commonest n-grams."""
    ranked = Counter(grams(words, n)).most_common(1)
    if not ranked or ranked[0][1] == 1:
        return 0.0
    gram, count = ranked[0]
    return sum(map(len, gram)) * count / sum(map(len, words))


def plain_duplicated(words, n):
    counts = Counter(grams(words, n))
    covered = {
        place
        for start, gram in enumerate(grams(words, n))
        if counts[gram] > 1
        for place in range(start, start + n)
    }
    return sum(len(words[place]) for place in covered) / sum(map(len, words))


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "d"]), min_size=1, max_size=60))
def test_shares_are_those_of_counting_tuples(words):
    shares = ngram_shares(words)
    assert shares.top == pytest.approx({n: plain_top(words, n) for n in TOP}, abs=1e-12)
    expected = {n: plain_duplicated(words, n) for n in DUPLICATED}
    assert shares.duplicated == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**62)), max_size=30), st.randoms())
def test_equal_keys_come_together_in_the_order_of_their_places(keys, random):
    places = random.sample(range(40), len(keys))
    found = _together(np.array(keys, np.int64), np.array(places, np.int64), 40)
    expected = sorted(zip(keys, places, strict=True))
    assert [*zip(*(column.tolist() for column in found), strict=True)] == expected


def test_of_equally_common_ngrams_the_first_seen_is_weighed():
    # "aaa b" and "c d" occur twice each; the first has 4 of the 12 characters
    assert ngram_shares(["aaa", "b", "c", "d", "x", "aaa", "b", "y", "c", "d"]).top[2] == 4 * 2 / 14


def test_no_words_have_no_shares():
    assert ngram_shares([]).top[2] == 0.0
