import numpy as np
import pyarrow.parquet as pq
import pytest

from dph_corpus.dedup.signatures import band_digests, jaccard, shingle_set
from dph_corpus.settings import PRESETS
from opencoder_files import opencoder_files
from shared_data import SOME_AND_ALL, shared_data


@pytest.fixture(scope="module")
def texts():
    """The recorded files' texts by id."""
    return {row["id"]: row["text"] for row in opencoder_files()}


@SOME_AND_ALL
def test_similarities_of_real_files_are_the_recorded_ones(texts, every):
    rows = pq.read_table(shared_data("opencoder/jaccard.parquet")).to_pylist()[::every]
    for row in rows:
        first, second = (shingle_set(texts[row[name]]) for name in ("id_a", "id_b"))
        assert (len(first), len(second)) == (row["shingles_a"], row["shingles_b"])
        assert jaccard(first, second) == pytest.approx(row["jaccard"], abs=1e-9)


@SOME_AND_ALL
def test_of_real_files_copies_are_caught_and_nothing_below_nine_tenths(texts, every):
    rows = pq.read_table(shared_data("opencoder/jaccard.parquet")).to_pylist()[::every]
    for row in rows:
        pair = [texts[row[name]] for name in ("id_a", "id_b")]
        digests = band_digests(pair, PRESETS["opencoder"])
        first, second = (np.frombuffer(found, dtype="<u8") for found in digests)
        caught = bool((first == second).any())
        if row["jaccard"] >= 0.995:
            assert caught, row
        if row["jaccard"] < 0.9:
            assert not caught, row
