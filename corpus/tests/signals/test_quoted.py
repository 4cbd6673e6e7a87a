import re

from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.signals.split import (
    joins_strings,
    long_strings,
    long_word_characters,
    quoted_in_lines,
)

BACKTRACKING = re.compile(r"\s*=\s*[\"'].+?[\"']\s*\+\s*[\"'].+?[\"'].*")


@given(st.text(st.sampled_from("=+'\" ax"), max_size=20))
def test_joined_strings_are_those_that_backtracking_finds(line):
    assert joins_strings(line + "\n") == bool(BACKTRACKING.search(line + "\n"))


def test_quotes_pair_from_the_left_whatever_they_mean():
    assert quoted_in_lines("don't say 'x' or \"y\"\n'open\n'z'") == ["t say ", "y", "z"]


def test_pieces_of_strings_count_from_21_words():
    twenty, more = " ".join("a" * 20), " ".join("a" * 21)
    assert long_strings(f"'{twenty}'", "en") == 0
    assert long_strings(f"'''{more}\n{twenty}\n{more}'''", "en") == 2


def test_long_words_have_over_20_characters_and_no_url():
    key, short, url = "k" * 21, "k" * 20, "https://example.com/aaaaaaaaaa"
    assert long_word_characters([f"{key} {short} {url}"]) == 21
