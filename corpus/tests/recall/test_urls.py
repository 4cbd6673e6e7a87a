import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.recall.review import Patterns, bare_url, domain_of, section_of


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("https://www.Example.com/A/b", "example.com/a/b"),
        ("http://user:secret@example.com:80/x", "example.com/x"),
        ("example.com", "example.com"),
        ("//example.com?q=A", "example.com?q=a"),
        ("", ""),
        ("http://[", ""),
    ],
)
def test_a_url_is_bare_of_scheme_user_port_and_www(url, bare):
    assert bare_url(url) == bare
    assert domain_of(url) == bare.partition("/")[0].partition("?")[0]


@pytest.mark.parametrize(
    ("pattern", "url", "matches"),
    [
        ("stackoverflow.com/questions%", "https://stackoverflow.com/questions/1", True),
        ("stackoverflow.com/questions%", "https://stackoverflow.com/users/1", False),
        ("stackoverflow.com/questions", "https://stackoverflow.com/questions/1", False),
        ("%.org/post%", "http://blog.juejin.org/post/3", True),
        ("%juejin.cn/post%", "http://juejin.cn/post/3", True),
        ("a_b.com/%", "http://axb.com/1", False),
        ("a.com/%", "http://axcom/1", False),
        ("A.com/Q/%", "http://a.com/q/1", True),
    ],
)
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
