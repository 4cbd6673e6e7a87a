import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph_corpus.signals import measuring as prose
from dph_corpus.signals.view import CharacterCounts, count_characters
from dph_corpus.signals.words import (
    DUPLICATED,
    TOP,
    SignalError,
    _together,
    ngram_shares,
    normalised_words,
    raw_words,
    simplified,
)

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


def grams(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def plain_top(words, n):
    """As the definition says it: the first of the commonest n-grams."""
    ranked = Counter(grams(words, n)).most_common(1)
    if not ranked or ranked[0][1] == 1:
        return 0.0
    gram, count = ranked[0]
    return sum(map(len, gram)) * count / sum(map(len, words))


def plain_duplicated(words, n):
    counts = Counter(grams(words, n))
    covered = {
        place
        for start, gram in enumerate(grams(words, n))
        if counts[gram] > 1
        for place in range(start, start + n)
    }
    return sum(len(words[place]) for place in covered) / sum(map(len, words))


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "d"]), min_size=1, max_size=60))
def test_shares_are_those_of_counting_tuples(words):
    shares = ngram_shares(words)
    assert shares.top == pytest.approx({n: plain_top(words, n) for n in TOP}, abs=1e-12)
    expected = {n: plain_duplicated(words, n) for n in DUPLICATED}
    assert shares.duplicated == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**62)), max_size=30), st.randoms())
def test_equal_keys_come_together_in_the_order_of_their_places(keys, random):
    places = random.sample(range(40), len(keys))
    found = _together(np.array(keys, np.int64), np.array(places, np.int64), 40)
    expected = sorted(zip(keys, places, strict=True))
    assert [*zip(*(column.tolist() for column in found), strict=True)] == expected


def test_of_equally_common_ngrams_the_first_seen_is_weighed_and_no_words_have_no_shares():
    # "aaa b" and "c d" occur twice each; the first has 4 of the 12 characters
    assert ngram_shares(["aaa", "b", "c", "d", "x", "aaa", "b", "y", "c", "d"]).top[2] == 4 * 2 / 14
    assert ngram_shares([]).top[2] == 0.0


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


def test_sentences_begin_at_a_word_and_run_to_a_mark_and_have_a_mean_length():
    assert prose.count_sentences("One. Two? Three! ... four") == 4
    assert prose.count_sentences("no mark here") == 1
    assert prose.count_sentences("...") == 0
    # "ab", "c", "" without the marks
    assert prose.mean_sentence_length("ab.c!") == 1.0


def test_teasers_end_in_dots_behind_closing_brackets():
    assert prose.teaser_lines(["more ...)\n", "wait\u2026\n", "ends.\n", "详情】\n"]) == 3


def test_a_dash_is_no_bullet():
    assert prose.bullet_lines(["\u2022 a\n", "  \u25aa b\n", "- c\n", "* d\n"]) == 2


def test_entropy_is_that_of_the_distribution_of_words():
    # two words, equally often: ln 2
    assert abs(prose.entropy(["a", "b", "a", "b"]) - 0.6931471805599453) < 1e-15


def test_the_first_copy_counts_as_a_copy():
    lines = ["a\n", " a \n", "b\n", "\n"]
    assert prose.copied_line_share(lines) == 2 / 3
    assert prose.copied_character_share(["aa\n", "aa\n", "bbbb\n", "\n"]) == 4 / 8
    assert prose.copied_line_share(["\n"]) is None


def test_links_in_brackets_and_tags_are_markup():
    assert prose.markup_characters("[x](https://a.b) <br>\n1 < 2\n") == len("(https://a.b)<br>")


def test_names_of_files_that_belong_to_code():
    names = ("README", "requirements-dev", "notes.old", "chapter")
    assert [prose.is_named_like_code(name) for name in names] == [True, True, True, False]
