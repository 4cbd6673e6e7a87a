import pytest

from dph.errors import DataError
from dph_corpus.recall.review import accepted, read_review, sections, write_review

PAGES = [
    ("a.com", "http://a.com/q/1", True),
    ("a.com", "http://a.com/q/2", False),
    ("a.com", "http://a.com/q/3", False),
    ("a.com", "http://a.com/about", True),
]


def test_sections_count_their_pages_and_show_one_that_was_missed():
    found = sections(PAGES)
    section = found["a.com/q/%"]
    assert (section.pages, section.recalled, section.missed) == (3, 1, 2)
    assert section.example == "http://a.com/q/2"
    assert found["a.com/about%"].example == "http://a.com/about"


def test_a_file_without_a_column_is_named(tmp_path):
    path = tmp_path / "review.csv"
    path.write_text("pattern,yes\na%,1\n")
    with pytest.raises(DataError, match="there is no 'accept', only pattern"):
        read_review(path)


def test_answers_are_kept_when_the_file_is_written_again(tmp_path):
    path = tmp_path / "review.csv"
    answers = {"a.com/q/%": True, "%mine%": False}
    write_review(path, sections(PAGES), answers)
    assert read_review(path) == {"a.com/q/%": True, "a.com/about%": None, "%mine%": False}
    assert accepted(read_review(path)) == ["a.com/q/%"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("%,yes", "'%' would match every page"),
        (",yes", "'' would match every page"),
        ("a%,perhaps", "accept must be yes, no or empty, got 'perhaps'"),
        ("a%,yes\na%,no", "'a%' occurs twice"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path, rows, message):
    path = tmp_path / "review.csv"
    path.write_text(f"pattern,accept\n{rows}\n")
    with pytest.raises(DataError, match=message):
        read_review(path)
