import random

import pytest

from corpus.recall.planted_pages import text_about
from dph.cli.corpus.recall import _scores_line
from dph.corpus.documents import Document
from dph.corpus.recall.rounds import Windows
from dph.corpus.recall.run import recall, rounds_of
from dph.corpus.settings import CLASSIFIERS, RecallSettings
from small_corpora import small_corpus


def documents(name, topics, count, length, seed=0):
    draw = random.Random(seed)
    return [
        Document.of(
            text_about(topics[n % len(topics)], draw, length),
            id=f"{name}{n}-{topics[n % len(topics)]}",
            path=f"{n}",
            url=f"https://{n % 7}.example/{n}",
        )
        for n in range(count)
    ]


@pytest.fixture
def corpora(tmp_path):
    pages = documents("p", ("python", "food", "sport", "travel"), 200, 300)
    return {
        "pages": small_corpus(tmp_path / "pages", pages, shards=2),
        "seeds": small_corpus(tmp_path / "seeds", documents("s", ("python",), 40, 12)),
    }


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_short_seeds_recall_long_pages(corpora, tmp_path, classifier):
    """Forty lines of 12 words, and pages of 300: one in four is about what the lines are about."""
    settings = RecallSettings(vocabulary=600, classifier=classifier)
    kept = recall(**corpora, out=tmp_path / "out", settings=settings)
    names = [document.id for document in kept.documents()]
    right = sum(name.endswith("python") for name in names)
    assert right >= 45  # of 50
    assert right == len(names)


def test_windows_of_both_kinds_have_the_lengths_of_the_shorter(corpora):
    windows = Windows(corpora["seeds"], corpora["pages"], longest=10_000)
    seeds, pages = (list(corpora[kind].documents()) for kind in ("seeds", "pages"))
    assert [windows.cut(each, seed=True) for each in seeds] == [each.text for each in seeds]
    for page, seed in zip(pages, seeds * 5, strict=True):
        window = windows.cut(page, seed=False)
        assert 0 < len(window) <= len(seed.text)
        assert window in page.text
        assert set(window.split()[:-1]) <= set(page.text.split())  # whole words, but for the last


def test_a_round_without_a_page_says_where_the_scores_lie(corpora, tmp_path):
    settings = RecallSettings(vocabulary=600, threshold=0.9999999)
    recall(**corpora, out=tmp_path / "out", settings=settings)
    (last,) = rounds_of(tmp_path / "out")
    assert list(last["quantiles"]) == ["0.5", "0.9", "0.99", "1"]
    assert last["quantiles"]["0.5"] <= last["quantiles"]["1"] < 0.9999999
    assert "no page scores 0.9999 or more" in _scores_line(last, 0.9999)
    assert "no page" not in _scores_line(last | {"by_score": 3}, 0.5)
