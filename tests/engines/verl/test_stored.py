"""Stored answers come from columns, one at a time."""

import pytest

from dph.engines.verl.fitting import open_stored
from dph.errors import PoolError
from dph.runs.presample.pool import load_pool
from dph.runs.train.rows import rehearsal_of_step


def test_they_are_the_samples_of_the_pool(small_pool):
    manifest, stored = open_stored(small_pool)
    pool = load_pool(small_pool)
    assert manifest == pool.manifest
    assert list(stored) == list(pool.rehearsal)
    assert stored[2:5] == list(pool.rehearsal[2:5])
    assert stored[-1] == pool.rehearsal[-1]


def test_a_step_draws_the_same_ones_as_dph_train(small_pool):
    _, stored = open_stored(small_pool)
    pool = load_pool(small_pool)
    for step in (1, 2, 40):
        ours = rehearsal_of_step(stored, 5, step, seed=3)
        assert ours == rehearsal_of_step(pool.rehearsal, 5, step, seed=3)


def test_an_index_beyond_the_last_is_an_error(small_pool):
    _, stored = open_stored(small_pool)
    with pytest.raises(IndexError, match="there are 11"):
        stored[11]


def test_a_changed_file_is_refused(small_pool):
    (small_pool / "rehearsal.parquet").write_bytes(b"else")
    with pytest.raises(PoolError, match="SHA-256 differs"):
        open_stored(small_pool)
