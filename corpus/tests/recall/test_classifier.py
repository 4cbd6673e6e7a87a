import random

import pytest

from corpus.tests.recall.planted_pages import text_about
from dph_corpus.recall.classifier import learn_classifier, load_classifier
from dph_corpus.settings import CLASSIFIERS


def lines(topic, seed, count=80):
    draw = random.Random(seed)
    return [text_about(topic, draw) for _ in range(count)]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_unseen_lines_are_told_apart(kind, tmp_path):
    learn_classifier(kind, lines("python", 0), lines("food", 1), tmp_path / "c", seed=0)
    found = load_classifier(kind, tmp_path / "c")
    assert min(found.scores(lines("python", 2))) > 0.5 > max(found.scores(lines("food", 3)))
    assert found.scores([""]) == [0.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_same_lines_and_seed_make_the_same_bytes(kind, tmp_path):
    for name in ("one", "two"):
        learn_classifier(kind, lines("sql", 0), lines("sport", 1), tmp_path / name, seed=7)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_score_does_not_depend_on_what_is_scored_beside_it(kind, tmp_path):
    learn_classifier(kind, lines("rust", 0), lines("travel", 1), tmp_path / "c", seed=0)
    found = load_classifier(kind, tmp_path / "c")
    asked = [*lines("rust", 2, 5), "", *lines("travel", 3, 5), "x " * 5000]
    assert found.scores(asked) == [found.scores([line])[0] for line in asked]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_fewer_of_one_kind_do_not_make_it_unlikely(kind, tmp_path):
    learn_classifier(kind, lines("sql", 0, 20), lines("food", 1, 200), tmp_path / "c", seed=0)
    scores = load_classifier(kind, tmp_path / "c").scores(lines("sql", 2))
    assert sum(score > 0.5 for score in scores) >= 72  # nine of ten of 80
