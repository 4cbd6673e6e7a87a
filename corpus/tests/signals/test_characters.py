from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.signals.view import CharacterCounts, count_characters


@given(st.text(st.characters() | st.sampled_from("{}\ufffd\ud800 ²９"), max_size=60))
def test_counts_are_those_of_the_strings_own_tests(text):
    assert count_characters(text) == CharacterCounts(
        total=len(text),
        alphabetic=sum(map(str.isalpha, text)),
        digits=sum(map(str.isdigit, text)),
        spaces=sum(map(str.isspace, text)),
        replacements=text.count("\ufffd"),
        brackets=text.count("{") + text.count("}"),
    )
