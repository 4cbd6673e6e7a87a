import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dph_corpus.recall.classifier import learn_pieces, load_pieces

TEXTS = ["def add(a, b):\n    return a + b\n", "naïve 東京 \x00 \u2028 text", "select * from t"] * 3


@pytest.fixture(scope="module")
def learnt():
    """A small BPE that reads whole texts."""
    return learn_pieces(TEXTS, vocabulary=300, characters=10_000)


def test_a_line_is_numbers_and_the_file_gives_the_same_lines(tmp_path):
    learnt = learn_pieces(TEXTS, vocabulary=320, characters=100)
    lines = learnt.lines(TEXTS)
    assert all(int(token) >= 0 for line in lines for token in line.split(" "))
    learnt.save(tmp_path / "pieces.json")
    assert load_pieces(tmp_path / "pieces.json", characters=100).lines(TEXTS) == lines


def test_only_the_head_of_a_text_is_read():
    learnt = learn_pieces(TEXTS, vocabulary=320, characters=5)
    assert learnt.lines(["abcdefgh"]) == learnt.lines(["abcdeXYZ"])


def test_the_same_texts_make_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        learn_pieces(TEXTS, vocabulary=400, characters=100).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@given(st.text(), st.text())
@settings(max_examples=50, deadline=None)
def test_two_texts_have_one_line_only_if_they_are_the_same(learnt, one, two):
    lines = learnt.lines([one, two])
    assert (lines[0] == lines[1]) == (one == two)
    assert (lines[0] == "") == (one == "")
