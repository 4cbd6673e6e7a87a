import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dph_corpus.dedup.signatures import WITHOUT_BLANKS, word_hashes, words_in

TEXTS = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" a_1\n.-é")))
# A letter of a script without blanks is a word; else a longest run of \w without such letters.
WORD = rf"(?=\w){WITHOUT_BLANKS.pattern}|(?:(?!{WITHOUT_BLANKS.pattern})\w)+"


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_equal_words_and_only_they_have_equal_hashes(first, second):
    words = re.findall(WORD, first) + re.findall(WORD, second)
    hashes = [*word_hashes(first).tolist(), *word_hashes(second).tolist()]
    assert len(words) == len(hashes)
    assert len(set(words)) == len(set(zip(words, hashes, strict=True))) == len(set(hashes))


@settings(deadline=None)
@given(TEXTS)
def test_letters_that_are_not_taken_apart_are_words_as_blanks_cut_them(text):
    hashes, starts, ends = words_in(text, apart=False)
    found = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert found == re.findall(r"\w+", text)
    assert len(set(found)) == len(set(hashes.tolist()))


def test_each_script_without_blanks_is_taken_apart_and_one_with_blanks_is_not():
    apart = ["汉字", "漢字", "ひらがな", "カタカナ", "ｶﾅ", "ㄅㄆ", "กข", "ກຂ", "ကခ", "កខ", "𠀀𠀁"]
    assert [len(word_hashes(text)) for text in apart] == [len(text) for text in apart]
    whole = ["한국어", "Wörter", "слова", "λέξεις", "كلمة", "שלום", "हनद", "abc_1", "ελ"]
    assert [len(word_hashes(text)) for text in whole] == [1] * len(whole)
    assert len(word_hashes("use中文words")) == 4


def test_a_word_has_one_hash_wherever_it_stands_and_in_whatever_company():
    (alone,) = word_hashes("word")
    far = word_hashes("x " * 100_000 + "word")[-1]
    beside_others = word_hashes("жω word 漢字")[1]
    assert alone == far == beside_others


def test_no_two_of_a_million_words_collide():
    hashes = word_hashes(" ".join(f"{n:x}" for n in range(1_000_000)))
    assert len(np.unique(hashes)) == 1_000_000


def test_each_bit_of_the_hashes_is_set_in_half_of_them():
    hashes = word_hashes(" ".join(map(str, range(40_000))))
    bits = np.unpackbits(hashes.view(np.uint8)).reshape(40_000, 64).mean(axis=0)
    # 5 standard deviations of a mean of 40,000 fair bits
    assert np.abs(bits - 0.5).max() < 5 * 0.5 / 200


def test_no_text_has_no_words():
    assert len(word_hashes("")) == len(word_hashes(" .,;\n")) == 0
