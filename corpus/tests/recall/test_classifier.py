import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus.tests.recall.planted_pages import text_about
from dph_corpus.recall.classifier import Classifier, learn_classifier, learn_pieces, load_pieces


def lines(topic, seed, count=80):
    draw = random.Random(seed)
    return [text_about(topic, draw) for _ in range(count)]


def test_unseen_lines_are_told_apart_and_scored_alike_alone_and_together(tmp_path):
    learn_classifier(lines("python", 0), lines("food", 1), tmp_path / "c", seed=0)
    found = Classifier(tmp_path / "c")
    assert min(found.scores(lines("python", 2))) > 0.5 > max(found.scores(lines("food", 3)))
    asked = [*lines("python", 2, 5), "", *lines("food", 3, 5), "x " * 5000]
    assert found.scores(asked) == [found.scores([line])[0] for line in asked]
    assert found.scores([""]) == [0.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


def test_the_same_lines_and_seed_make_the_same_bytes_and_fewer_seeds_are_not_unlikely(tmp_path):
    for name in ("one", "two"):
        learn_classifier(lines("sql", 0, 20), lines("food", 1, 200), tmp_path / name, seed=7)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    scores = Classifier(tmp_path / "one").scores(lines("sql", 2))
    assert sum(score > 0.5 for score in scores) >= 72  # nine of ten of 80


PIECES_OF = [
    "def add(a, b):\n    return a + b\n",
    "naïve 東京 \x00 \u2028 text",
    "select * from t",
] * 3


@pytest.fixture(scope="module")
def learnt():
    """A small BPE that reads whole texts."""
    return learn_pieces(PIECES_OF, vocabulary=300, characters=10_000)


def test_a_line_is_numbers_and_the_file_gives_the_same_lines(tmp_path):
    learnt = learn_pieces(PIECES_OF, vocabulary=320, characters=100)
    lines = learnt.lines(PIECES_OF)
    assert all(int(token) >= 0 for line in lines for token in line.split(" "))
    learnt.save(tmp_path / "pieces.json")
    assert load_pieces(tmp_path / "pieces.json", characters=100).lines(PIECES_OF) == lines


def test_only_the_head_of_a_text_is_read():
    learnt = learn_pieces(PIECES_OF, vocabulary=320, characters=5)
    assert learnt.lines(["abcdefgh"]) == learnt.lines(["abcdeXYZ"])


def test_the_same_texts_make_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        learn_pieces(PIECES_OF, vocabulary=400, characters=100).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@given(st.text(), st.text())
@settings(max_examples=50, deadline=None)
def test_two_texts_have_one_line_only_if_they_are_the_same(learnt, one, two):
    lines = learnt.lines([one, two])
    assert (lines[0] == lines[1]) == (one == two)
    assert (lines[0] == "") == (one == "")
