import hashlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dph_corpus.dedup.index import CopyIndex, join, roots
from dph_corpus.dedup.work import DIGEST_BYTES, MARKS, preference
from dph_corpus.documents import Document, position
from dph_corpus.settings import Nearness
from dph_corpus.shards import shard_of
from dph_corpus.sorting import BatchWriter, SortedColumns, batches, merged
from dph_corpus.tables import read_table

ROWS = st.lists(
    st.tuples(
        *(st.text("abAB0é", min_size=1), st.integers(-1, 2), st.integers(0, 2)),
        *(
            st.sampled_from("xyzuvw"),
            st.one_of(st.just(""), st.text("abcd", min_size=3, max_size=3)),
        ),
    ),
    unique_by=lambda row: row[0],
    max_size=30,
)
"""Documents: id, stars, commit time, text, and a letter for each of three bands ('' for none)."""


def marks_file(path, rows):
    """Marks of ``rows``, as a worker writes them of a shard."""
    found = []
    for name, stars, commit, text, word in rows:
        document = Document.of(text, id=name, path="p", stars=stars, commit_time=commit)
        digest = hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]
        bands = b"".join(letter.encode() * 8 for letter in word)
        found.append((preference(document), digest, bands, 1))
    columns = [*zip(*sorted(found), strict=True)] or [()] * 4
    with BatchWriter(path, MARKS) as writer:
        writer.add(pa.table([[*each] for each in columns], schema=MARKS))
    return path


def copies_of(directory, rows, shards=1, run_bytes=100):
    """Copies of ``rows`` in order, of each shard that is written; marks come in two files."""
    directory.mkdir()
    marks = [marks_file(directory / f"marks{n}", rows[n::2]) for n in range(2)]
    index = CopyIndex(marks, len(rows), Nearness(3, 1), directory / "index", run_bytes=run_bytes)
    index.find(lambda _members: iter(()))
    places = [directory / f"cut{n}" for n in range(shards)]
    index.write(places)
    assert not (directory / "index").exists()
    return [[*read_table(place)] for place in places]


def expected(rows):
    """The same by repeated merging of sets."""
    ranked = sorted(rows, key=lambda row: (-row[1], -row[2], row[0]))
    best = {row[0]: next(other[0] for other in ranked if other[3] == row[3]) for row in ranked}
    alone = [row for row in ranked if best[row[0]] == row[0]]
    groups = [{row[0]} for row in alone if row[4]]
    words = {row[0]: row[4] for row in alone}
    for place in range(3):
        for letter in "abcd":
            hit = [g for g in groups if any(words[name][place] == letter for name in g)]
            groups = [g for g in groups if g not in hit] + ([set().union(*hit)] if hit else [])
    order = [row[0] for row in ranked]
    near = {name: min(group, key=order.index) for group in groups for name in group}
    found = {}
    for name in order:
        kept = near.get(best[name], best[name])
        if kept != name:
            found[name] = ("exact" if best[name] != name else "near", kept)
    return found


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, run_bytes=st.integers(1, 400))
def test_copies_are_the_best_of_equal_texts_and_of_what_hangs_together_by_bands(
    tmp_path_factory, rows, run_bytes
):
    (found,) = copies_of(tmp_path_factory.mktemp("a") / "b", rows, run_bytes=run_bytes)
    assert {row["id"]: (row["reason"], row["kept_id"]) for row in found} == expected(rows)
    places = [(position(row["id"]), row["id"]) for row in found]
    assert places == sorted(places)
    assert all(row["value"] is None for row in found)


@settings(deadline=None, max_examples=10)
@given(rows=ROWS)
def test_the_copies_of_all_shards_are_those_of_one(tmp_path_factory, rows):
    home = tmp_path_factory.mktemp("a")
    (whole,) = copies_of(home / "one", rows)
    for shards in (4, 64):
        parts = copies_of(home / f"{shards}", rows[::-1], shards)
        assert [row for part in parts for row in part] == whole
        for index, part in enumerate(parts):
            assert all(shard_of(row["id"], shards) == index for row in part)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=40))
def test_numbers_are_joined_as_sets_are(pairs):
    parents = np.arange(20, dtype=np.uint32)
    for chunk in (pairs[:7], pairs[7:]):
        ones, others = (np.array([pair[k] for pair in chunk], dtype=np.int64) for k in (0, 1))
        join(parents, ones, others)
    groups = [{number} for number in range(20)]
    for one, other in pairs:
        hit = [group for group in groups if group & {one, other}]
        groups = [group for group in groups if group not in hit] + [set().union(*hit)]
    found = roots(parents, np.arange(20)).tolist()
    assert found == [min(next(g for g in groups if number in g)) for number in range(20)]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=60), st.integers(1, 300))
def test_blocks_are_all_rows_in_order_with_equal_keys_together(tmp_path_factory, rows, run_bytes):
    directory = tmp_path_factory.mktemp("runs")
    sorter = SortedColumns(directory, ["a", "b"], run_bytes=run_bytes)
    for at, (a, b) in enumerate(rows):
        sorter.add(pa.table({"a": [a], "b": [b], "at": [at]}))
    blocks = [block.to_pylist() for block in sorter.blocks()]
    found = [(row["a"], row["b"], row["at"]) for block in blocks for row in block]
    assert found == sorted((a, b, at) for at, (a, b) in enumerate(rows))
    firsts = [{row["a"] for row in block} for block in blocks]
    assert all(max(one) < min(other) for one, other in pairwise(firsts))
    assert not [*directory.iterdir()]


def test_texts_as_keys_are_merged_by_their_bytes(tmp_path):
    keys = [f"{n:x}".encode() * (n % 3 + 1) for n in range(100)]
    runs = []
    for part in range(3):
        path = tmp_path / f"{part}"
        with BatchWriter(path, pa.schema([("key", pa.binary())])) as writer:
            table = pa.table({"key": pa.array(sorted(keys[part::3]), pa.binary())})
            writer.add(table)
        runs.append(batches(path))
    found = [key for block in merged(runs, ["key"]) for key in block["key"].to_pylist()]
    assert found == sorted(keys)


def test_marks_that_are_more_than_the_corpus_says_are_an_error(tmp_path):
    marks = [marks_file(tmp_path / "m", [("a", 0, 0, "x", ""), ("b", 0, 0, "y", "")])]
    index = CopyIndex(marks, 1, Nearness(0, 1), tmp_path / "index")
    with pytest.raises(IndexError):
        index.find(lambda _members: iter(()))


def test_keys_are_compared_as_whole_numbers_and_more_runs_are_merged_in_turns(tmp_path):
    """Neighbours from 2**53 on are one floating-point number; 80 runs are more than are open."""
    numbers = np.array([2**53 + (n * 37) % 80 for n in range(80)], dtype=np.uint64)
    sorter = SortedColumns(tmp_path / "a", ["key"], run_bytes=1)
    for number in numbers:
        sorter.add(pa.table({"key": [number]}, schema=pa.schema([("key", pa.uint64())])))
    found = [key for block in sorter.blocks() for key in block["key"].to_pylist()]
    assert found == sorted(numbers.tolist())
    assert not [*(tmp_path / "a").iterdir()]
