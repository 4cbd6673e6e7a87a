import csv

import pytest

from corpus.tests.recall.planted_pages import pages, seeds
from dph.errors import DataError
from dph_corpus.recall.review import read_review
from dph_corpus.recall.run import DOMAINS, REVIEW, recall, rounds_of
from dph_corpus.settings import RecallSettings
from dph_corpus.tables import read_table
from small_corpora import rows_file, small_corpus

ACCEPTED = "pattern,accept\n%.example/questions/%,yes\n%/blog/%,no\n"


@pytest.fixture
def web(tmp_path):
    """The directory of a small web, its seeds, labels of all pages, and reviewed patterns."""
    found, relevant = pages()
    rows = [{"id": page.id, "relevant": page.id in relevant} for page in found]
    labels = rows_file(tmp_path / "labels.jsonl", rows)
    reviewed = tmp_path / "reviewed.csv"
    reviewed.write_text(ACCEPTED)
    return {
        "pages": small_corpus(tmp_path / "pages", found, shards=2),
        "seeds": small_corpus(tmp_path / "seeds", seeds()),
        "labelled": labels,
        "patterns": reviewed,
    }


def small(**settings):
    return RecallSettings(vocabulary=600, **settings)


def test_recall_rises_over_three_rounds_and_precision_stays(web, tmp_path):
    kept = recall(**web, out=tmp_path / "out", settings=small())
    rounds = rounds_of(tmp_path / "out")
    assert len(rounds) == 3
    recalls = [one["recall"] for one in rounds]
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[2] > 0.95
    assert all(one["precision"] >= 0.9 for one in rounds)
    _, relevant = pages()
    names = {document.id for document in kept.documents()}
    assert len(names & relevant) / len(relevant) == pytest.approx(recalls[2])
    assert kept.manifest.flow.counts["by score"] == rounds[2]["by_score"]
    assert kept.manifest.flow.counts.get("by url", 0) == rounds[2]["by_url"]


def test_without_patterns_one_round_is_done_and_a_person_is_asked(web, tmp_path):
    out = tmp_path / "out"
    recall(web["pages"], web["seeds"], out, settings=small())
    assert len(rounds_of(out)) == 1
    with (out / REVIEW).open(newline="") as file:
        rows = {row["pattern"]: row for row in csv.DictReader(file)}
    asked = rows["a.example/questions/%"]
    assert (asked["accept"], asked["domain"], asked["pages"]) == ("", "a.example", "120")
    assert int(asked["recalled"]) + int(asked["missed"]) == 120
    assert not any(pattern.startswith("c.example") for pattern in rows)  # nothing is recalled there
    domains = {row["domain"]: row for row in read_table(out / DOMAINS)}
    assert domains["a.example"]["related"]
    assert not domains["c.example"]["related"]


def test_the_file_that_asked_can_be_answered_in_place(web, tmp_path):
    out = tmp_path / "out"
    two = small(rounds=2)
    recall(web["pages"], web["seeds"], out, settings=two)
    text = (out / REVIEW).read_text()
    (out / REVIEW).write_text(text.replace("a.example/questions/%,,", "a.example/questions/%,yes,"))
    answered = (out / REVIEW).read_bytes()
    recall(web["pages"], web["seeds"], out, settings=two)  # nothing is made, nothing is lost
    (tmp_path / "other.csv").write_text("pattern,accept\nc.example%,yes\n")
    with pytest.raises(DataError, match=r"an answer about 'a\.example/questions/%'"):
        recall(web["pages"], web["seeds"], out, settings=two, patterns=tmp_path / "other.csv")
    assert (out / REVIEW).read_bytes() == answered
    recall(web["pages"], web["seeds"], out, settings=two, patterns=out / REVIEW)
    assert rounds_of(out)[0]["joined"] > 0
    assert len(rounds_of(out)) == 2
    assert read_review(out / REVIEW)["a.example/questions/%"]


def test_the_same_pages_in_other_shards_by_other_workers_make_the_same(web, tmp_path):
    first = recall(**web, out=tmp_path / "first", settings=small(rounds=1))
    again = small_corpus(tmp_path / "again", list(web["pages"].documents())[::-1], shards=3)
    other = recall(
        **web | {"pages": again}, out=tmp_path / "second", settings=small(rounds=1), workers=2
    )
    assert first.manifest.content == other.manifest.content
    for name in ("rounds.json", "related.json", "classifier", "pieces.json", REVIEW):
        one, two = ((tmp_path / which / name).read_bytes() for which in ("first", "second"))
        assert one == two, name


def test_what_is_done_is_not_done_again(web, tmp_path):
    out = tmp_path / "out"
    recall(**web, out=out, settings=small(rounds=1))
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    recall(**web, out=out, settings=small(rounds=1))
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == before
    assert not (out / ".work").exists()


def test_labels_of_pages_that_are_not_there_are_refused(web, tmp_path):
    web["labelled"].write_text('{"id": "nowhere", "relevant": true}\n')
    with pytest.raises(DataError, match="1 labelled ids are not pages, first 'nowhere'"):
        recall(**web, out=tmp_path / "out", settings=small())


def test_nothing_to_learn_from_is_said(web, tmp_path):
    empty = small_corpus(tmp_path / "empty", [])
    with pytest.raises(DataError, match="round 1 of recall has no seed to learn from"):
        recall(**web | {"seeds": empty}, out=tmp_path / "out", settings=small())
    with pytest.raises(DataError, match="has no page that is not recalled already to learn from"):
        recall(empty, web["seeds"], tmp_path / "out2", settings=small())
