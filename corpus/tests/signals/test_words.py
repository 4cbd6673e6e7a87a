import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.signals.words import SignalError, normalised_words, raw_words, simplified

TEXTS = st.text(
    st.sampled_from("aB_é²Σσ \t\n\r\x00\x07\x0b\x1c\u200b\u2009\uff3f。「x」\uff11-='\"०ि"),
    max_size=40,
)


@given(TEXTS)
def test_words_of_a_text_are_those_of_its_lines_one_by_one(text):
    by_line = [word for line in text.split("\n") for word in normalised_words(line)]
    assert normalised_words(text) == by_line


@given(st.text(st.characters(max_codepoint=126), max_size=40))
def test_ascii_words_are_lower_case_runs_without_punctuation_and_control_characters(text):
    kept = re.sub(r"[\x00-\x07\x0e-\x1a\x1c-\x1f]", "", text).lower()
    blank = re.sub(r"[!-/:-@\[-`{-~]", " ", kept)
    assert normalised_words(text) == re.findall(r"\w+|[^\w\s]+", blank)


def test_a_character_that_nfkc_makes_punctuation_stays_a_word():
    # U+2026 becomes three dots after ASCII punctuation has been blanked
    assert unicodedata.normalize("NFKC", "\u2026") == "..."
    assert normalised_words("wait\u2026 now.") == ["wait", "...", "now"]


def test_marks_belong_to_the_letters_they_stand_on():
    assert raw_words("नेपाली भाषा") == ["नेपाली", "भाषा"]


def test_raw_words_keep_punctuation_and_case():
    assert raw_words("if (A_b)\x1c!") == ["if", "(", "A_b", ")\x1c!"]


def test_chinese_is_simplified_and_cut_into_words():
    assert simplified("漢語") == "汉语"
    assert raw_words("我们喜欢读书", "zh") == ["我们", "喜欢", "读书"]
    assert normalised_words("我们\uff0c喜欢", "zh") == ["我们", "喜欢"]


def test_japanese_has_no_words():
    with pytest.raises(SignalError, match="Japanese"):
        normalised_words("日本", "ja")
