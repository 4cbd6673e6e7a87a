import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.corpus.dedup.decisions import Marks, components, keepers_of_copies


def marks(rows):
    """Marks of (id, stars, commit time, text) rows."""
    return Marks(
        ids=[row[0] for row in rows],
        stars=np.array([row[1] for row in rows], dtype=np.int64),
        commit_times=np.array([row[2] for row in rows], dtype=np.int64),
        digests=np.array([hashlib.sha256(row[3].encode()).hexdigest() for row in rows], "S64"),
        sizes=np.ones(len(rows), dtype=np.int64),
        bands=[b""] * len(rows),
    )


ROWS = st.lists(
    st.tuples(st.text("abAB0", min_size=1), *[st.integers(0, 2)] * 2, st.sampled_from("xyz")),
    unique_by=lambda row: row[0],
    max_size=25,
)


@settings(deadline=None)
@given(ROWS)
def test_the_keeper_of_a_group_of_copies_is_the_best_of_them(rows):
    keepers = keepers_of_copies(marks(rows)).tolist()
    for index, row in enumerate(rows):
        copies = [other for other in rows if other[3] == row[3]]
        best = min(copies, key=lambda other: (-other[1], -other[2], other[0]))
        assert rows[keepers[index]] == best


@settings(deadline=None)
@given(st.lists(st.one_of(st.just(""), st.text("abc", min_size=3, max_size=3)), max_size=25))
def test_groups_are_what_hangs_together_by_equal_bands(words):
    bands = [b"".join(letter.encode() * 8 for letter in word) for word in words]
    found = components(bands, np.arange(len(bands)))
    # the same by repeated merging of sets
    groups = [{index} for index, word in enumerate(words) if word]
    for place in range(3):
        for letter in "abc":
            hit = [g for g in groups if any(words[i][place] == letter for i in g)]
            groups = [g for g in groups if g not in hit] + ([set().union(*hit)] if hit else [])
    assert sorted(found) == sorted(sorted(group) for group in groups if len(group) > 1)


def test_a_band_is_compared_with_the_same_band_alone():
    one, two = b"a" * 8 + b"b" * 8, b"b" * 8 + b"a" * 8
    assert components([one, two], np.arange(2)) == []
    assert components([one, one, two], np.arange(3)) == [[0, 1]]
    assert components([one, one], np.array([1])) == []
