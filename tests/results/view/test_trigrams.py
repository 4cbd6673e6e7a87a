import numpy as np
import pytest

from dph.results.view import haystack as trigrams
from dph.results.view.haystack import Trigrams


def signatures_of(texts):
    made = Trigrams()
    for text in texts:
        made.add(text)
    made.flush()
    return made


def split(texts, ends):
    """The texts of every piece, joined."""
    whole = b"".join(texts)
    starts = [0, *ends[:-1]]
    return [whole[a:b] for a, b in zip(starts, ends, strict=True)]


@pytest.mark.parametrize("piece", [1, 40, 4096])
@pytest.mark.parametrize("pieces", [1, 3, 8, 2048])
def test_no_piece_that_has_a_word_is_left_out(monkeypatch, piece, pieces):
    monkeypatch.setattr(trigrams, "_PIECE", piece)
    monkeypatch.setattr(trigrams, "_PIECES", pieces)
    rng = np.random.default_rng(0)
    texts = [rng.choice(list(b"abc\xe4 "), size=n).astype(np.uint8).tobytes() for n in range(40)]
    made = signatures_of(texts)
    found = split(texts, made.ends.tolist())
    for word in (b"a", b"ab", b"abc", b"c\xe4a", b"abcab", b"bb bb", b"zz", b"zzz"):
        has = np.array([word in text for text in found])
        assert (made.pieces(word) | ~has).all(), word


def test_a_piece_ends_with_the_text_that_fills_it():
    texts = [b"x" * 3000, b"y" * 3000, b"z" * 10]
    assert signatures_of(texts).ends.tolist() == [6000, 6010]


def test_few_pieces_without_a_word_are_named():
    rng = np.random.default_rng(1)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz ", dtype=np.uint8)
    made = signatures_of(
        rng.choice(letters, size=4096).astype(np.uint8).tobytes() for _ in range(300)
    )
    # 4,094 trigrams and 27^2 pairs in 4,096 buckets leave exp(-1.18) of them empty, so a word of
    # 8 trigrams is in a piece by chance with (1 - 0.31)^8 = 0.05.
    assert made.pieces(b"0123456789").mean() < 0.1


def test_a_word_shorter_than_a_pair_may_be_anywhere_and_of_nothing_there_are_no_pieces():
    assert signatures_of([b"abc"]).pieces(b"x").tolist() == [True]
    assert signatures_of([]).pieces(b"abc").tolist() == []
