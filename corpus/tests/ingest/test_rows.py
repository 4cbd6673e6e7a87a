import datetime
import gzip
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from case_tables import table
from dph.errors import SettingsError
from dph_corpus.documents import DocType, Document
from dph_corpus.ingest.reading import LARGEST, column_choices, row_documents

CASES = table("ingest/cases.toml")


def read(path, columns=None, **facts):
    """Documents by id, and (reason, place) of what was skipped."""
    found = list(row_documents(path, "label", facts, columns or {}))
    documents = {found.id: found for found in found if isinstance(found, Document)}
    return documents, [(s.reason, s.path) for s in found if not isinstance(s, Document)]


def lines(path, *rows):
    path.write_bytes(
        b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in rows)
    )
    return path


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


def test_a_row_gives_what_it_says_and_the_table_of_languages_the_rest(tmp_path):
    row = {"id": "a", "text": "x = 1\n", "path": "src/a.py", "bytes": 7, "lang": "en"}
    row |= {"stars": 3.0, "commit_time": "2020-01-02T00:00:00Z", "license": "MIT"}
    (document,) = read(lines(tmp_path / "a.jsonl", row))[0].values()
    assert (document.path, document.bytes, document.natural_language) == ("src/a.py", 7, "en")
    assert (document.language, document.doc_type) == ("python", DocType.CODE)
    assert (document.stars, document.commit_time, document.licence) == (3, 1577923200, "MIT")
    assert document.source == "label"


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        (datetime.date(2020, 1, 2), 1577923200),
        (datetime.datetime(2020, 1, 2, 1), 1577926800),
        (datetime.datetime(2020, 1, 2, 1, tzinfo=datetime.UTC), 1577926800),
    ],
)
def test_a_date_of_a_table_is_a_time(tmp_path, moment, seconds):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["x"], "id": ["a"], "commit_time": [moment]}), path)
    assert read(path)[0]["a"].commit_time == seconds


def test_names_in_two_parts_labels_of_the_row_and_other_columns_are_taken(tmp_path):
    rows = [
        {"id": "a", "text": "x", "filename": "setup", "ext": "py"},
        {"id": "b", "text": "x", "path": "b.py", "program_lang": "SQL", "doc_type": "text"},
        {"id": "c", "text": "no", "code": "yes", "path": "c.sql"},
    ]
    documents, _ = read(lines(tmp_path / "a.jsonl", *rows[:2]), stars=5)
    first, second = documents.values()
    assert (first.path, first.language, first.stars) == ("setup.py", "python", 5)
    assert (second.language, second.doc_type) == ("sql", "text")
    documents, _ = read(lines(tmp_path / "b.jsonl", rows[2]), {"text": "code"})
    assert documents["c"].text == "yes"


@pytest.mark.parametrize(("row", "columns", "name", "language"), CASES["names"])
def test_a_row_is_called_by_its_id_its_path_or_its_text(tmp_path, row, columns, name, language):
    # "label/2d711642b726b044" has the head of SHA-256 of "x"
    (found,) = read(lines(tmp_path / "a.jsonl", {"text": "x"} | row), columns)[0].values()
    assert (found.id, found.language, found.natural_language) == (name, language, "")


def test_what_is_no_document_is_counted_with_its_line(tmp_path):
    path = lines(
        tmp_path / "a.jsonl",
        b"not json",
        b"[" * 100_000,
        b"9" * 10_000,
        b"[1]",
        {"id": "a"},
        {"id": "b", "text": 3},
        {"id": "c", "text": "nul\0"},
        b'{"id": "d", "text": "\\ud800"}',
        {"id": "e", "text": "x" * (LARGEST + 1)},
        {"id": "f", "text": "x", "stars": "many"},
        {"id": "g", "text": "x", "doc_type": "poem"},
        b'{"id": "\\udc00", "text": "x"}',
        b"\xff\xfe",
        b"",
        {"id": "good", "text": "x"},
    )
    documents, skipped = read(path)
    assert list(documents) == ["good"]
    reasons = ["not_json", "not_json", "not_json", "not_a_row", "no_text", "bad_field", "binary"]
    reasons += ["undecodable", "oversized", "bad_field", "bad_field", "bad_field", "not_json"]
    assert skipped == [(reason, f"line {n}") for n, reason in enumerate(reasons, 1)]


PUBLISHED = [["MIT"], ["MIT", "Apache-2.0"], [], ["BSD-3-Clause", None, "BSD-3-Clause"]]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_list_of_licences_is_a_choice_and_costs_no_document(tmp_path, form):
    rows = [{"content": f"x = {n}", "licenses": each} for n, each in enumerate(PUBLISHED)]
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines(path, *rows)
    documents, skipped = read(path, {"licence": "licenses"})
    licences = [document.licence for document in documents.values()]
    assert (licences, skipped) == (["MIT", "MIT OR Apache-2.0", "", "BSD-3-Clause"], [])


DEEP = "[" * 100_000


@pytest.mark.parametrize(("value", "licence"), [*CASES["licences"], (DEEP, DEEP)])
def test_other_forms_of_licences_are_read_or_none_is_known(tmp_path, value, licence):
    documents, skipped = read(lines(tmp_path / "a.jsonl", {"text": "x", "license": value}))
    assert [document.licence for document in documents.values()] == [licence]
    assert skipped == []


@pytest.mark.parametrize(("row", "columns", "said"), CASES["bad_fields"])
def test_a_bad_field_is_named_with_its_type_and_what_is_allowed(tmp_path, row, columns, said):
    (skip,) = row_documents(lines(tmp_path / "a.jsonl", {"text": "x"} | row), "l", {}, columns)
    assert (skip.reason, skip.path) == ("bad_field", "line 1")
    assert all(part in skip.note for part in said), skip.note


TEXTS = ["one \u2028 line", "zwei Wörter", "三", "\U0001f600", "x" * 20_000]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32"]
)
def test_json_lines_of_every_encoding_are_read_whole(tmp_path, encoding):
    rows = [json.dumps({"text": text}, ensure_ascii=False) for text in TEXTS]
    for mark in ("", "\ufeff"):
        data = (mark + "\n".join(rows) + "\n").encode(encoding)
        for packing, packed in (("", data), (".gz", gzip.compress(data)), (".zst", zstd(data))):
            (tmp_path / f"a.jsonl{packing}").write_bytes(packed)
            documents, skipped = read(tmp_path / f"a.jsonl{packing}")
            found = [document.text for document in documents.values()]
            assert (found, skipped) == (TEXTS, []), (mark, packing)


def test_half_a_pair_costs_its_row_alone_and_a_cut_file_says_after_which_row(tmp_path):
    rows = [json.dumps({"text": f"row {n} " + "x" * 9_000}) + "\n" for n in range(9)]
    path = tmp_path / "a.jsonl"
    half = '{"text": "\udc00"}\n'
    path.write_bytes("".join([*rows, half, *rows]).encode("utf-16-le", "surrogatepass"))
    found = [*row_documents(path, "l", {}, {})]
    assert [each.reason for each in found if not isinstance(each, Document)] == ["undecodable"]
    assert len(found) == 19
    path.write_bytes("".join(rows).encode("utf-16")[:-1])
    *_, last = row_documents(path, "l", {}, {})
    assert last.reason == "file_damaged"
    assert re.fullmatch(r"a\.jsonl, after line [78]", last.path)


def test_a_line_of_a_hundred_megabytes_is_passed_over_without_being_held(tmp_path):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.writelines([b'{"text": "', *[b"x" * 10_000_000] * 10, b'"}\n'])
        file.write(b'{"id": "b", "text": "y"}')
    documents, skipped = read(path)
    assert list(documents) == ["b"]
    assert skipped == [("line_too_long", "line 1")]


def test_packed_lines_are_read_and_a_broken_frame_keeps_what_came_before_it(tmp_path):
    rows = [{"id": f"d{n}", "text": f"{n * 7919} " * 40} for n in range(3000)]
    plain = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    for suffix, packed in ((".gz", gzip.compress(plain)), (".zst", zstd(plain))):
        path = tmp_path / f"a.jsonl{suffix}"
        path.write_bytes(packed)
        assert len(read(path)[0]) == 3000
        path.write_bytes(packed + packed)  # frames may follow each other
        assert len(list(row_documents(path, "label", {}, {}))) == 6000
        path.write_bytes(packed[: len(packed) // 2])
        documents, skipped = read(path)
        assert len(documents) < 3000
        assert [reason for reason, _ in skipped][-1] == "file_damaged"
        path.write_bytes(packed[:12] + b"\xff" * 60 + packed[72:])
        assert [reason for reason, _ in read(path)[1]][-1] == "file_damaged"
        path.write_bytes(packed + b"garbage")
        documents, skipped = read(path)
        assert len(documents) > 2000
        assert [reason for reason, _ in skipped] == ["file_damaged"]
        path.write_bytes(packed[:4])
        assert [reason for reason, _ in read(path)[1]] == ["file_damaged"]


def test_a_frame_that_unpacks_to_too_much_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr("dph_corpus.ingest.reading.ALWAYS_ALLOWED", 1_000_000)
    line = json.dumps({"id": "a", "text": "x"}).encode() + b"\n"
    (tmp_path / "a.jsonl.zst").write_bytes(zstd(line * 2_000_000))
    documents, skipped = read(tmp_path / "a.jsonl.zst")
    assert list(documents) == ["a"]
    assert skipped[-1][0] == "file_too_large"


def test_rows_of_a_parquet_file_and_damage_of_one(tmp_path):
    rows = [{"id": f"d{n}", "content": f"text {n}", "stars": n} for n in range(500)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    documents, skipped = read(path)
    assert (len(documents), skipped) == (500, [])
    assert documents["d7"].text == "text 7"
    data = bytearray(path.read_bytes())
    for damaged in (
        data[:-4],
        data[:100],
        b"PAR1" + bytes(200) + b"PAR1",
        data[:40] + bytes(len(data) - 300) + data[-260:],
    ):
        path.write_bytes(bytes(damaged))
        assert "file_damaged" in [reason for reason, _ in read(path)[1]]


def test_columns_are_given_as_a_known_field_and_a_name():
    assert column_choices(["text=code", "id=hash"]) == {"text": "code", "id": "hash"}
    for wrong in (["text"], ["texts=a"], ["text="], ["text=a", "text=b"]):
        with pytest.raises(SettingsError):
            column_choices(wrong)
