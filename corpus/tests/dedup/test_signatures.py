import math
import re

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.errors import SettingsError
from dph_corpus.dedup.signatures import (
    BAND_BYTES,
    WITHOUT_BLANKS,
    band_digests,
    jaccard,
    shingle_hashes,
    shingle_hashes_of,
    shingle_set,
    word_hashes,
    words_in,
)
from dph_corpus.dedup.work import Copy, Member, near_copies
from dph_corpus.settings import PRESETS, Nearness, preset
from opencoder_files import opencoder_files
from planted_pairs import pairs
from shared_data import SOME_AND_ALL, shared_data

OPENCODER = PRESETS["opencoder"]


def caught(first, second, nearness=OPENCODER):
    """Whether any band of the two texts agrees."""
    one, two = (np.frombuffer(b, dtype="<u8") for b in band_digests([first, second], nearness))
    return bool((one == two).any())


def chance(similarity, nearness):
    """Of becoming candidates: 1 - (1 - J**rows)**bands."""
    return 1 - (1 - similarity**nearness.rows) ** nearness.bands


@pytest.mark.parametrize(
    ("preset_name", "low", "high"),
    [
        ("loose", 0.6, 0.75),
        *(("opencoder", *of) for of in ((0.95, 0.965), (0.965, 0.98), (0.98, 0.995))),
    ],
)
def test_pairs_are_caught_as_often_as_the_bands_say(preset_name, low, high):
    nearness = PRESETS[preset_name]
    found = pairs(int(low * 1000), 200, low, high)
    expected = [chance(similarity, nearness) for _, _, similarity in found]
    deviation = math.sqrt(sum(p * (1 - p) for p in expected))
    hits = sum(caught(first, second, nearness) for first, second, _ in found)
    assert abs(hits - sum(expected)) <= 3 * deviation


def test_copies_and_what_is_nearly_one_are_always_caught():
    found = pairs(1, 60, 0.995, 1.0, lengths=(2400, 9000))
    assert all(caught(first, second) for first, second, _ in found)
    assert all(caught(first, first) for first, _, _ in found)


def test_nothing_below_nine_tenths_is_caught():
    found = [
        p for n, low in enumerate((0.5, 0.7, 0.8, 0.85)) for p in pairs(n, 25, low, low + 0.05)
    ]
    assert not any(caught(first, second) for first, second, _ in found)


def test_digests_do_not_depend_on_what_else_is_digested_with_them():
    texts = [" ".join(f"{a}x{b}" for b in range(50)) for a in range(20)]
    together = band_digests(texts, OPENCODER)
    assert together == [band_digests([text], OPENCODER)[0] for text in texts]
    assert {len(digests) for digests in together} == {16 * BAND_BYTES}


def test_below_five_words_there_is_nothing_to_compare():
    assert band_digests(["one two three four", ""], OPENCODER) == [b"", b""]


def test_the_curve_is_the_published_one():
    # the table: P(caught) at .95 .96 .97 .98 .985 .99
    published = {0.95: 0.022, 0.96: 0.083, 0.97: 0.279, 0.98: 0.714, 0.985: 0.918, 0.99: 0.994}
    for similarity, share in published.items():
        assert chance(similarity, OPENCODER) == pytest.approx(share, abs=5e-4)


def test_settings_out_of_range_are_refused():
    with pytest.raises(SettingsError, match="at most 8192 hashes"):
        Nearness(bands=100, rows=100)
    with pytest.raises(SettingsError, match=r"least_jaccard must lie in \(0, 1\]"):
        preset("loose", 1.5)
    with pytest.raises(SettingsError, match="opencoder, loose, exact"):
        preset("closer")
    assert preset("opencoder", 0.9).least_jaccard == 0.9


WORDS = st.lists(st.sampled_from("abc"), max_size=40).map(" ".join)


def shingles(text):
    words = re.findall(r"\w+", text)
    return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}


@given(WORDS, WORDS)
def test_the_similarity_is_that_of_the_sets_of_five_words_in_a_row(first, second):
    one, two = shingles(first), shingles(second)
    expected = len(one & two) / len(one | two) if one | two else 0.0
    assert jaccard(shingle_set(first), shingle_set(second)) == expected


@given(st.lists(WORDS, max_size=6), st.sampled_from([5, 10]))
def test_several_texts_together_have_the_shingles_of_each(texts, length):
    hashes, counts = shingle_hashes_of(texts, length)
    each = [shingle_hashes(text, length).tolist() for text in texts]
    assert counts.tolist() == [len(found) for found in each]
    assert hashes.tolist() == [value for found in each for value in found]


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


@pytest.fixture(scope="module")
def texts():
    """The recorded files' texts by id."""
    return {row["id"]: row["text"] for row in opencoder_files()}


@SOME_AND_ALL
def test_real_files_are_as_similar_as_recorded_and_caught_for_it(texts, every):
    rows = pq.read_table(shared_data("opencoder/jaccard.parquet")).to_pylist()[::every]
    for row in rows:
        pair = [texts[row[name]] for name in ("id_a", "id_b")]
        first, second = map(shingle_set, pair)
        assert (len(first), len(second)) == (row["shingles_a"], row["shingles_b"])
        assert jaccard(first, second) == pytest.approx(row["jaccard"], abs=1e-9)
        if not 0.9 <= row["jaccard"] < 0.995:
            assert caught(*pair) == (row["jaccard"] >= 0.995), row


BAND = b"12345678"


def chain(length, step):
    """Texts of which neighbours share most words, and the ends few."""
    words = [f"w{n}" for n in range(200 + length * step)]
    return [" ".join(words[n * step : n * step + 200]) for n in range(length)]


def looked_at(texts, least, bands=None):
    members = [Member(str(n), n, (bands or {}).get(n, BAND)) for n in range(len(texts))]
    sets = {str(n): shingle_set(text) for n, text in enumerate(texts)}
    forwards = near_copies(members, sets.__getitem__, least)
    assert forwards == near_copies(members[::-1], sets.__getitem__, least)
    return forwards


def test_a_chain_is_not_dropped_for_its_best_file_alone():
    # n and n + 1 share 156 of 236 shingles (.66), n and n + 2 116 of 276 (.42)
    found = looked_at(chain(5, 40), 0.6)
    assert [(copy.number, copy.kept) for copy in found] == [(1, 0), (3, 2)]
    assert found[0].value == 156 / 236


def test_of_two_kept_files_the_more_similar_one_is_named():
    first, *_, near, last = chain(5, 20)
    # shared shingles: first, last 116 of 276; near, first 136 of 256; near, last 176 of 216
    (copy,) = looked_at([first, last, near], 0.5)
    assert copy == Copy(number=2, kept=1, value=176 / 216)


def test_files_that_share_no_band_are_not_compared():
    text = chain(1, 0)[0]
    assert looked_at([text, text], 0.9, {0: b"aaaaaaaa", 1: b"bbbbbbbb"}) == []
    assert len(looked_at([text, text], 0.9)) == 1
