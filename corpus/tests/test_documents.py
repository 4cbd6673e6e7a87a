import hashlib
import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from case_tables import table
from dph.errors import DataError, SettingsError
from dph_corpus.documents import (
    FIELDS,
    UNKNOWN,
    ContentDigest,
    DocType,
    Document,
    language_named,
    language_of,
    language_of_path,
    position,
)
from dph_corpus.settings import RecallSettings, SynthSettings
from dph_corpus.shards import (
    DROPS,
    Flow,
    join_parts,
    open_corpus,
    position_range,
    shard_name,
    shard_of,
    shards_for,
)
from dph_corpus.stage import DocumentOutcome, Drop, StageSpec
from dph_corpus.tables import DocumentWriter, read_documents
from shared_data import shared_data
from small_corpora import numbered, small_corpus


def test_size_and_digest_are_those_of_the_text_in_utf_8():
    document = Document.of("é\r\n", id="a", path="a")
    assert document.bytes == 4
    assert document.sha256 == hashlib.sha256(b"\xc3\xa9\r\n").hexdigest()
    other = document.with_text("x")
    assert (other.bytes, other.id) == (1, "a")
    assert other.sha256 == hashlib.sha256(b"x").hexdigest()
    assert Document.of("x", id="a", path="a", bytes=9).bytes == 9


def test_half_of_a_surrogate_pair_is_no_text():
    with pytest.raises(DataError, match="a: the text is not Unicode"):
        Document.of("\ud800", id="a", path="a")


def test_positions_spread_evenly():
    # quarters of 4,000 ids: 1,000 each, standard deviation 27
    counts = [0] * 4
    for number in range(4000):
        counts[position(str(number)) >> 62] += 1
    assert all(abs(count - 1000) < 5 * 27.4 for count in counts)


def test_the_digest_of_a_set_depends_on_every_field_and_not_on_the_order():
    documents = numbered(20)

    def digest(found):
        content = ContentDigest()
        for document in found:
            content.add(document)
        return content.hex()

    assert digest(documents) == digest(documents[::-1])
    halves = ContentDigest(digest(documents[:7]))
    halves.merge(digest(documents[7:]))
    assert halves.hex() == digest(documents)
    base = documents[0].row()
    for name in FIELDS:
        if name == "text":  # which sha256 stands for
            continue
        changed = base | {name: base[name] + 1 if isinstance(base[name], int) else f"{base[name]}x"}
        assert digest([Document(**changed)]) != digest(documents[:1]), name


def flow_of(documents):
    flow = Flow()
    for number, document in enumerate(documents):
        drops = [Drop("odd")] if number % 2 else []
        drops += [Drop("third")] if number % 3 == 0 else []
        outcome = (
            DocumentOutcome(None, drops) if drops else DocumentOutcome(document, counts={"kept": 1})
        )
        flow.record(document, outcome)
    return flow


def documents(count, start=0):
    return [
        Document.of("x" * 10, id=str(n), path="a", language="python", doc_type="code")
        for n in range(start, start + count)
    ]


def test_hits_solo_hits_and_bytes_are_counted_by_reason():
    flow = flow_of(documents(12))
    # odd: 1 3 5 7 9 11; third: 0 3 6 9; both: 3 9
    assert (flow.reasons["odd"].documents, flow.reasons["odd"].solo) == (6, 4)
    assert (flow.reasons["third"].documents, flow.reasons["third"].solo) == (4, 2)
    assert flow.reasons["odd"].bytes == 60
    total = flow.total()
    assert (total.documents, total.kept_documents, total.kept_bytes) == (12, 4, 40)
    assert flow.counts["kept"] == 4


def test_flows_of_shards_add_up_to_the_flow_of_the_whole_whatever_the_order():
    parts = [flow_of(documents(12, start)) for start in (0, 12, 24)]
    sums = []
    for order in ((0, 1, 2), (2, 0, 1)):
        total = Flow()
        for index in order:
            total.add(Flow.of(parts[index].json()))
        sums.append(total.json())
    assert sums[0] == sums[1] == flow_of(documents(36)).json()
    assert len(sums[0]["reasons"]["odd"]["examples"]) == 5


def test_a_document_is_kept_or_dropped_for_a_reason_and_never_both():
    document = documents(1)[0]
    for wrong in ((None, ()), (document, [Drop("odd")])):
        with pytest.raises(ValueError, match="either kept or dropped"):
            DocumentOutcome(*wrong)


def test_a_file_that_a_stage_reads_needs_a_digest():
    with pytest.raises(ValueError, match="digests are missing"):
        StageSpec(name="a", entry="b:c", settings={}, files={"index": "/x"})
    spec = StageSpec(
        name="a", entry="b:c", settings={"d": 1}, inputs={"index": "0"}, files={"index": "/x"}
    )
    assert spec.given() == {"d": 1, "files": {"index": "/x"}}
    assert "/x" not in str(spec.key())


def test_whole_names_come_before_extensions_and_case_is_passed_over_last():
    assert language_of_path("a/CMakeLists.txt").name == "cmake"
    assert language_of_path("a/notes.txt").doc_type is DocType.TEXT
    assert language_of_path("x.C").name == "cpp"
    assert language_of_path("x.c").name == "c"
    assert language_of_path("X.PY").name == "python"
    assert language_of_path("a.py/README") == language_of_path("README")
    assert language_of_path("") == language_of_path("x.never") == UNKNOWN
    assert language_of_path("table.csv").doc_type is DocType.EXCLUDED


def test_a_language_is_found_by_its_name_in_any_case():
    assert language_named("Python").doc_type is DocType.CODE
    assert language_named("C++") == language_of_path("a.cpp")
    assert language_named("C#") == language_of_path("a.cs")
    assert language_named("unknown") == UNKNOWN
    assert language_named("no such language").doc_type is DocType.UNKNOWN


def test_the_table_assigns_what_the_released_filter_assigned():
    rows = pq.read_table(shared_data("opencoder/files.parquet")).to_pylist()
    wrong = [
        row["path"]
        for row in rows
        if (found := language_of(row["filename"], row["ext"])).name
        != ("" if row["program_lang"] == "unknown" else row["program_lang"])
        or found.doc_type != row["doc_type"]
    ]
    assert wrong == []


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        table("zz.toml")["z"],
        ({"vocabulary": 255}, "vocabulary must be at least 300, got 255"),
        ({"threshold": 1.0}, r"the threshold must lie in \(0, 1\), got 1.0"),
        ({"domain_share": 1.0}, r"domain_share must lie in \[0, 1\), got 1.0"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        RecallSettings(**settings)


def test_what_decides_rows_is_named_and_where_their_seeds_lie_is_not():
    settings = SynthSettings(kind="sql", databases=Path("/a"), model="m", seed=3, most=5)
    assert settings.json({"model": "digest"}) == {
        "kind": "sql",
        "samples": 1,
        "seed": 3,
        "generator": {"model": "digest"},
        "second": True,
        "survivors": 0.5,
        "timeout": 5.0,
    }
