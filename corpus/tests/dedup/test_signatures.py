import math

import numpy as np
import pytest

from dph.errors import SettingsError
from dph_corpus.dedup.signatures import BAND_BYTES, band_digests, jaccard, shingle_set
from dph_corpus.settings import PRESETS, Nearness, preset
from planted_pairs import pair, pairs

OPENCODER = PRESETS["opencoder"]


def caught(first, second, nearness=OPENCODER):
    """Whether any band of the two texts agrees."""
    one, two = (np.frombuffer(b, dtype="<u8") for b in band_digests([first, second], nearness))
    return bool((one == two).any())


def test_a_planted_pair_has_the_similarity_that_it_is_said_to_have():
    first, second, similarity = pair(np.random.default_rng(0), 604, 3)
    assert similarity == (600 - 15) / (600 + 15)
    assert jaccard(shingle_set(first), shingle_set(second)) == pytest.approx(similarity, abs=1e-12)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        *((0.94, 0.95), (0.95, 0.96), (0.96, 0.97), (0.97, 0.975)),
        *((0.975, 0.98), (0.98, 0.985), (0.985, 0.99), (0.99, 0.995)),
    ],
)
def test_pairs_are_caught_as_often_as_the_bands_say(low, high):
    found = pairs(int(low * 1000), 400, low, high)
    expected = [OPENCODER.caught(similarity) for _, _, similarity in found]
    deviation = math.sqrt(sum(p * (1 - p) for p in expected))
    hits = sum(caught(first, second) for first, second, _ in found)
    assert abs(hits - sum(expected)) <= 3 * deviation


def test_copies_and_what_is_nearly_one_are_always_caught():
    found = pairs(1, 300, 0.995, 1.0, lengths=(2400, 9000))
    assert all(caught(first, second) for first, second, _ in found)
    assert all(caught(first, first) for first, _, _ in found)


def test_nothing_below_nine_tenths_is_caught():
    found = [
        p for n, low in enumerate((0.5, 0.7, 0.8, 0.85)) for p in pairs(n, 75, low, low + 0.05)
    ]
    assert not any(caught(first, second) for first, second, _ in found)


def test_the_loose_preset_follows_its_own_curve():
    loose = PRESETS["loose"]
    found = pairs(7, 400, 0.6, 0.75)
    expected = [loose.caught(similarity) for _, _, similarity in found]
    deviation = math.sqrt(sum(p * (1 - p) for p in expected))
    hits = sum(caught(first, second, loose) for first, second, _ in found)
    assert abs(hits - sum(expected)) <= 3 * deviation


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
        assert OPENCODER.caught(similarity) == pytest.approx(share, abs=5e-4)


def test_settings_out_of_range_are_refused():
    with pytest.raises(SettingsError, match="at most 8192 hashes"):
        Nearness(bands=100, rows=100)
    with pytest.raises(SettingsError, match=r"least_jaccard must lie in \(0, 1\]"):
        preset("loose", 1.5)
    with pytest.raises(SettingsError, match="opencoder, loose, exact"):
        preset("closer")
    assert preset("opencoder", 0.9).least_jaccard == 0.9
