import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import table
from dph.errors import DataError
from dph_corpus.recall.review import (
    Patterns,
    accepted,
    bare_url,
    domain_of,
    measure,
    read_labels,
    read_review,
    section_of,
    sections,
    write_review,
)

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


def test_answers_are_kept_when_the_file_is_written_again(tmp_path):
    path = tmp_path / "review.csv"
    answers = {"a.com/q/%": True, "%mine%": False}
    write_review(path, sections(PAGES), answers)
    assert read_review(path) == {"a.com/q/%": True, "a.com/about%": None, "%mine%": False}
    assert accepted(read_review(path)) == ["a.com/q/%"]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_review, "pattern,yes\na%,1", "there is no 'accept', only pattern"),
        (read_review, "pattern,accept\n%,yes", "'%' would match every page"),
        (read_review, "pattern,accept\n,yes", "'' would match every page"),
        (read_review, "pattern,accept\na%,maybe", "accept must be yes, no or empty, got 'maybe'"),
        (read_review, "pattern,accept\na%,yes\na%,no", "'a%' occurs twice"),
        (read_labels, "id,relevant\na,maybe", "relevant must be true or false, got 'maybe'"),
        (read_labels, "id,relevant\na,1\na,1", "'a' occurs twice"),
    ],
)
def test_a_review_or_labels_that_cannot_be_meant_are_refused(tmp_path, read, text, message):
    path = tmp_path / "table.csv"
    path.write_text(f"{text}\n")
    with pytest.raises(DataError, match=message):
        read(path)


def test_labels_are_read_in_any_spelling(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("id,relevant\na,true\nb,0\nc,Yes\n")
    assert read_labels(path) == {"a": True, "b": False, "c": True}


def test_what_would_divide_by_nothing_is_unknown():
    assert measure({"a": False}, set()) == (None, None)
    assert measure({"a": True}, set()) == (0.0, None)


@pytest.mark.parametrize(("url", "bare"), table("recall/cases.toml")["bare"])
def test_a_url_is_bare_of_scheme_user_port_and_www(url, bare):
    assert bare_url(url) == bare
    assert domain_of(url) == bare.partition("/")[0].partition("?")[0]


@pytest.mark.parametrize(("pattern", "url", "matches"), table("recall/cases.toml")["patterns"])
def test_only_a_percent_sign_stands_for_other_characters(pattern, url, matches):
    assert Patterns([pattern]).matches(url) is matches


def test_no_pattern_matches_nothing():
    assert not Patterns([]).matches("http://a.com")


@given(
    st.from_regex(r"[a-z]{1,8}\.(com|org)", fullmatch=True),
    st.lists(st.from_regex(r"[a-zA-Z0-9_.-]{1,6}", fullmatch=True), max_size=4),
    st.sampled_from(["", "?q=1", "#top", "/"]),
)
def test_the_section_of_a_page_matches_the_page(domain, parts, end):
    url = f"https://{'/'.join([domain, *parts])}{end}"
    assert Patterns([section_of(url)]).matches(url)
