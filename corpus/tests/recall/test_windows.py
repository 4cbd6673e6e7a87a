import random

import pytest

from corpus.tests.recall.planted_pages import text_about
from dph_corpus.cli.recall import _scores_line
from dph_corpus.documents import Document
from dph_corpus.recall.rounds import Windows, division
from dph_corpus.recall.run import recall, rounds_of
from dph_corpus.settings import RecallSettings
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


def test_short_seeds_recall_long_pages(corpora, tmp_path):
    """Forty lines of 12 words, and pages of 300: one in four is about what the lines are about."""
    settings = RecallSettings(vocabulary=600)
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


def test_windows_begin_with_a_line_where_there_is_one(tmp_path):
    """Else a classifier tells seeds, which begin with a line, from windows that do not."""
    lines = [f"line {n} of the page" for n in range(200)]
    pages = [Document.of("\n".join(lines), id=f"p{n}", path="p") for n in range(30)]
    seeds = [Document.of("one line of sixty letters " * 2, id=f"s{n}", path="s") for n in range(30)]
    corpora = (small_corpus(tmp_path / k, v) for k, v in (("s", seeds), ("p", pages)))
    windows = Windows(*corpora, longest=10_000)
    for page in pages:
        assert windows.cut(page, seed=False).startswith("line ")


def test_a_round_says_where_the_scores_lie_and_what_another_threshold_would_do(corpora, tmp_path):
    settings = RecallSettings(vocabulary=600, threshold=0.9999999)
    recall(**corpora, out=tmp_path / "out", settings=settings)
    (last,) = rounds_of(tmp_path / "out")
    assert list(last["quantiles"]) == ["0.5", "0.9", "0.99", "1"]
    assert last["quantiles"]["0.5"] <= last["quantiles"]["1"] < 0.9999999
    told = _scores_line(last | {"threshold": 0.9999})
    assert "no page scores 0.9999 or more" in told
    assert f"which {last['divided']} reach; --divide takes it" in told
    assert "no page" not in _scores_line(last | {"by_score": 3})
    assert 45 <= last["divided"] <= 55  # of 50 that are about what the seeds are about


def test_divided_pages_are_recalled_whatever_the_scale_of_the_scores(corpora, tmp_path):
    """No page reaches the threshold; a quarter of the pages scores higher than the others."""
    settings = RecallSettings(vocabulary=600, threshold=0.9999999, divide=True)
    kept = recall(**corpora, out=tmp_path / "out", settings=settings)
    names = [document.id for document in kept.documents()]
    right = sum(name.endswith("python") for name in names)
    assert right >= 45
    assert right >= 0.9 * len(names)
    (last,) = rounds_of(tmp_path / "out")
    assert last["threshold"] == last["division"]
    assert len(names) == last["by_score"] == last["divided"]


def test_a_division_does_not_depend_on_the_scale_and_its_spread_is_the_largest_of_all_cuts():
    scores = [0.01, 0.02, 0.02, 0.05, 0.3, 0.31, 0.35]
    assert division(scores) == 0.3
    assert division([score / 1000 + 0.1 for score in scores]) == 0.3 / 1000 + 0.1
    assert division([0.4, 0.4]) == division([]) == 1.0
    draw = random.Random(0)
    drawn = sorted(round(draw.random(), 2) for _ in range(50))

    def spread(cut):
        groups = [[s for s in drawn if s < cut], [s for s in drawn if s >= cut]]
        means = [sum(group) / len(group) for group in groups]
        return len(groups[0]) * len(groups[1]) * (means[0] - means[1]) ** 2

    assert division(drawn) == max(sorted({*drawn})[1:], key=spread)
