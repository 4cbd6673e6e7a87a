import json
from itertools import pairwise

import pytest

from dph.errors import DataError
from dph_corpus.documents import Document, position
from dph_corpus.shards import (
    DROPS,
    join_parts,
    open_corpus,
    position_range,
    shard_name,
    shard_of,
    shards_for,
)
from dph_corpus.tables import DocumentWriter, read_documents
from small_corpora import numbered, small_corpus


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 10_000])
def test_ranges_cover_every_position_once_and_agree_with_the_shard_of_an_id(shards):
    ranges = [position_range(index, shards) for index in range(shards)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 2**64
    assert all(one[1] == two[0] for one, two in pairwise(ranges))
    for number in range(200):
        low, high = ranges[shard_of(str(number), shards)]
        assert low <= position(str(number)) < high


def test_a_shard_for_every_128_megabytes():
    assert [shards_for(size) for size in (0, 1, 128_000_000, 128_000_001, 10**15)] == [
        *(1, 1, 1, 2),
        10_000,
    ]


def test_documents_come_back_as_they_were_written_in_groups_of_any_size(tmp_path):
    documents = numbered(3000, "text {} é\r\n")
    corpus = small_corpus(tmp_path, documents)
    assert sorted(corpus.documents(), key=lambda d: d.id) == sorted(documents, key=lambda d: d.id)


def test_documents_out_of_order_are_refused(tmp_path):
    first, second = sorted(numbered(2), key=lambda document: position(document.id))
    for wrong in ([second, first], [first, first]):
        with DocumentWriter(tmp_path / "a.parquet") as writer:
            writer.write(wrong[0])
            with pytest.raises(DataError, match="does not come after"):
                writer.write(wrong[1])


def test_what_is_no_corpus_says_so(tmp_path):
    with pytest.raises(DataError, match="is not a corpus"):
        open_corpus(tmp_path)
    corpus = small_corpus(tmp_path, numbered(3), shards=2)
    corpus.path(corpus.shards[0]).unlink()
    with pytest.raises(DataError, match=f"lacks 1 of its shards, first {shard_name(0, 2)}"):
        open_corpus(tmp_path)
    manifest = tmp_path / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"schema": 99}))
    with pytest.raises(DataError, match="has schema 99"):
        open_corpus(tmp_path)
    manifest.write_text("[]")
    with pytest.raises(DataError, match="not the manifest"):
        open_corpus(tmp_path)


def test_a_file_of_other_columns_is_no_shard(tmp_path):
    corpus = small_corpus(tmp_path / "in", [Document.of("x", id="a", path="a")])
    dropped = corpus.directory / "other.parquet"
    join_parts([], dropped, DROPS)
    with pytest.raises(DataError, match="has no column text"):
        list(read_documents(dropped))
