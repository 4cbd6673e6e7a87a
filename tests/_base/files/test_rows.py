import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph._base.files.rows import SUFFIXES, column_names, count_rows, read_chunks, read_rows
from dph.errors import DataError

ROWS = [{"a": "x", "b": "1"}, {"a": 'y, "z"\nand more', "b": ""}, {"a": "ü", "b": "3"}]
CSV = 'a,b\nx,1\n\n"y, ""z""\nand more",\nü,3\n'


def write(path):
    """ROWS in the format that the name asks for; text files have a blank line after the first."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return path
    lines = [json.dumps(row) for row in ROWS]
    text = CSV if ".csv" in path.name else "\n".join([lines[0], "", *lines[1:], ""])
    packed = gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    path.write_bytes(packed)
    return path


PLACES = {
    ".parquet": ["row 1", "row 2", "row 3"],
    ".jsonl": ["line 1", "line 3", "line 4"],
    ".csv": ["line 2", "line 4", "line 6"],
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_rows_and_says_where_they_stand(tmp_path, suffix):
    path = write(tmp_path / f"in{suffix}")
    assert [row for _, row in read_rows(path)] == ROWS
    expected = PLACES[suffix.removesuffix(".gz")]
    assert [place for place, _ in read_rows(path)] == [f"{path}, {each}" for each in expected]
    assert count_rows(path) == 3
    assert column_names(path) == ("a", "b")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_chunks_hold_the_same_rows_in_order(tmp_path, suffix):
    chunks = list(read_chunks(write(tmp_path / f"in{suffix}"), 2))
    assert [chunk.rows for chunk in chunks] == [ROWS[:2], ROWS[2:]]
    assert all((chunk.table is None) != (suffix == ".parquet") for chunk in chunks)
    assert [chunk.without(["b"]).rows for chunk in chunks] == [
        [{"a": row["a"]} for row in part] for part in (ROWS[:2], ROWS[2:])
    ]


def test_columns_of_a_parquet_file_can_be_chosen(tmp_path):
    path = write(tmp_path / "in.parquet")
    assert [row for _, row in read_rows(path, columns=["b", "c"])] == [
        {"b": row["b"]} for row in ROWS
    ]


def test_a_byte_order_mark_and_long_cells_of_a_csv_file_are_read(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("\ufeffa\r\n" + "x" * 200_000 + "\r\n", encoding="utf-8")
    assert [row for _, row in read_rows(path)] == [{"a": "x" * 200_000}]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("in.txt", b"", r"must end in one of \.parquet, \.jsonl, \.jsonl\.gz, \.csv, \.csv\.gz"),
        ("in.jsonl", None, "there is no file"),
        ("in.jsonl", b'{"a": 1}\n{"a":', "line 2: not valid JSON"),
        ("in.parquet", b"rubbish", "is not a parquet file"),
        ("in.jsonl.gz", b'{"a": 1}\n', "as gzip"),
        ("in.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-12], "truncated or damaged"),
        ("in.csv", b"", "the first line of a CSV file names its columns"),
        ("in.csv", b"a,,b\n", r"names its columns, got \['a', '', 'b'\]"),
        ("in.csv", b"a,b,a\n1,2,3\n", "the column 'a' more than once"),
        ("in.csv", b"a,b\n1,2\n3\n", "line 3: the row has 1 fields, but there are 2 columns: a, b"),
        ("in.csv", b'a\n"open\n', "line 2: not valid CSV"),
        ("in.csv", b"a\n\xff\n", "not valid CSV: 'utf-8'"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words):
        list(read_rows(tmp_path / name))


def test_a_chunk_takes_objects_alone(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"a": 1}\n[1]\n')
    with pytest.raises(DataError, match=r"line 2: a row is a JSON object, got \[1\]"):
        list(read_chunks(tmp_path / "in.jsonl", 8))


def test_files_are_written_without_loading_pyarrow():
    script = "import sys, dph._base.files; assert 'pyarrow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
