import numpy as np
import pytest

from dph.results.view import haystack
from dph.results.view import haystack as trigrams
from dph.results.view.haystack import Haystack


def stack_of(*problems):
    stack = Haystack()
    for texts in problems:
        stack.add(texts)
    stack.flush()
    return stack


@pytest.mark.parametrize("block", [1, 7, 64, 8 * 2**20])
@pytest.mark.parametrize("piece", [1, 30, 4096])
def test_what_is_found_depends_neither_on_the_block_nor_on_the_pieces(monkeypatch, block, piece):
    monkeypatch.setattr(haystack, "_BLOCK", block)
    monkeypatch.setattr(trigrams, "_PIECE", piece)
    rng = np.random.default_rng(0)
    problems = [
        ["".join(rng.choice(list("aAbÄ\u202e "), size=rng.integers(0, 9))) for _ in range(n)]
        for n in rng.integers(0, 4, size=60)
    ]
    stack = stack_of(*problems)
    assert len(stack) == 60
    for word in ("a", "ab", "bä", "a a", "\u202e", "zz", "aaa"):
        there = [any(word in text.lower() for text in texts) for texts in problems]
        assert stack.having(word).tolist() == there, word
        known = rng.random(60) < 0.5
        assert (stack.having(word, known) | known).tolist() == (there | known).tolist(), word


def test_what_is_known_already_is_not_looked_through(monkeypatch):
    monkeypatch.setattr(trigrams, "_PIECE", 1)
    stack = stack_of(["rooms"], ["rooms", "hotel"], ["rooms"])
    assert stack.having("rooms", np.array([True, True, False])).tolist() == [False, False, True]


def test_letters_of_any_size_are_the_same_and_texts_do_not_run_into_each_other():
    stack = stack_of(["SELECT Rooms", "from"], ["hotel"], [])
    assert stack.having("select rooms").tolist() == [True, False, False]
    assert stack.having("roomsfrom").tolist() == [False] * 3
    assert stack.having("fromhotel").tolist() == [False] * 3
    assert stack_of(["a", "b"], ["a\nb"]).having("a\nb").tolist() == [False, True]


def test_a_lone_surrogate_is_a_letter_like_others():
    assert stack_of(["a\ud800b"], ["ab"]).having("\ud800B").tolist() == [True, False]


def test_no_problems_and_no_word_find_nothing():
    assert Haystack().having("a").tolist() == []
    assert stack_of(["a"]).having("").tolist() == [False]
