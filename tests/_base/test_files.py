import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph._base.files import (
    atomic_file,
    atomic_path,
    make_directory,
    only_writer,
    read_json,
    write_json,
    write_text,
)
from dph._base.files.parts import Earlier, Parts, TableParts
from dph._base.files.rows import SUFFIXES, column_names, count_rows, read_chunks, read_rows
from dph.errors import DataError


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def fail_half_way(path):
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        raise RuntimeError("half way")


def test_a_written_file_is_there_and_nothing_else_and_a_failed_write_leaves_it(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "grüße")
    with pytest.raises(RuntimeError, match="half"):
        fail_half_way(path)
    assert path.read_text(encoding="utf-8") == "grüße"
    assert names(tmp_path) == ["a.txt"]


def test_a_directory_replaces_a_directory_as_a_whole(tmp_path):
    path = tmp_path / "d"
    for content in ("old", "new"):
        with atomic_path(path) as temporary:
            (temporary / "sub").mkdir(parents=True)
            write_text(temporary / "sub" / content, content)
    assert names(path / "sub") == ["new"]
    assert names(tmp_path) == ["d"]


def test_what_a_killed_process_left_is_overwritten_and_a_format_keeps_its_suffix(tmp_path):
    (tmp_path / ".a.csv.tmp").mkdir()
    (tmp_path / ".a.csv.tmp" / "rest").write_text("half")
    with atomic_file(tmp_path / "a.csv") as temporary:
        assert temporary.suffix == ".csv"
        temporary.write_text("x")
    assert names(tmp_path) == ["a.csv"]


def test_a_directory_is_made_with_its_parents_and_refused_under_a_file(tmp_path):
    path = make_directory(tmp_path / "a" / "b")
    assert path.is_dir()
    assert names(path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write into the directory"):
        make_directory(tmp_path / "file" / "run")


def test_only_one_process_writes_into_a_directory(tmp_path):
    code = (
        "import sys, pathlib; from dph._base.files import only_writer\n"
        "with only_writer(pathlib.Path(sys.argv[1])): pass"
    )
    second = [sys.executable, "-c", code, str(tmp_path / "run")]
    with only_writer(tmp_path / "run"):
        refused = subprocess.run(second, capture_output=True, text=True, check=False)
        assert "another dph process is writing into" in refused.stderr
    assert subprocess.run(second, check=False).returncode == 0


def test_json_survives_and_nan_missing_and_broken_files_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*a\.json"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")
    path = tmp_path / "a.json"
    write_json(path, {"é": [1, None, 0.1]})
    assert read_json(path) == {"é": [1, None, 0.1]}
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, float("nan"))
    assert read_json(path) == {"é": [1, None, 0.1]}


JOB = {"source": "s", "rule": "r"}


def parts(directory, job=JOB, earlier=Earlier.KEPT_IF_SAME):
    return Parts(directory, job=job, suffix=".txt", earlier=earlier)


def put(store, index, text):
    with store.writing(index) as path:
        path.write_text(text)


def test_pieces_of_the_same_job_are_found_again_and_removed_at_the_end(tmp_path):
    put(parts(tmp_path / "p"), 3, "three")
    store = parts(tmp_path / "p")
    assert store.path(3).read_text() == "three"
    assert not store.path(2).exists()
    store.remove()
    assert list(tmp_path.iterdir()) == []


def test_pieces_of_another_job_are_removed_with_a_warning_or_refused(tmp_path, caplog):
    place = tmp_path / "p"
    put(parts(place), 0, "x")
    assert not parts(place, earlier=Earlier.REMOVED).path(0).exists()
    assert caplog.text == ""
    put(parts(place), 0, "x")
    (place / ".lock").write_text("")
    with pytest.raises(DataError, match=r"belongs to another job \(different rule\)"):
        parts(place, JOB | {"rule": "q"}, Earlier.REQUIRED_SAME)
    assert (place / "000000.txt").exists()
    assert not parts(place, JOB | {"rule": "q"}).path(0).exists()
    assert "parts of a job with other settings: removed" in caplog.text
    assert (place / ".lock").exists()  # somebody holds it
    put(parts(place), 0, "x")
    (place / "job.json").write_text("{")
    with pytest.raises(DataError, match=r"\(different source, rule\)"):
        parts(place, JOB, Earlier.REQUIRED_SAME)


def test_a_piece_that_failed_is_not_there(tmp_path):
    store = parts(tmp_path / "p")

    def fail():
        with store.writing(0) as path:
            path.write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert names(tmp_path / "p") == ["job.json"]


def test_tables_come_back_and_a_damaged_one_is_made_again(tmp_path, caplog):
    store, table = TableParts(tmp_path / "p", job={"digest": "d"}), pa.table({"a": [1, 2]})
    assert store.read(0) is None
    store.write(0, table)
    assert TableParts(tmp_path / "p", job={"digest": "d"}).read(0) == table
    store.path(0).write_text("cut")
    assert store.read(0) is None
    assert "is damaged: it will be made again" in caplog.text


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
    assert (count_rows(path), column_names(path)) == (3, ("a", "b"))
    chunks = list(read_chunks(path, 2))
    assert [chunk.rows for chunk in chunks] == [ROWS[:2], ROWS[2:]]
    assert all((chunk.table is None) != (suffix == ".parquet") for chunk in chunks)
    others = [row for chunk in chunks for row in chunk.without(["b"]).rows]
    assert others == [{"a": row["a"]} for row in ROWS]


def test_chosen_columns_byte_order_marks_and_long_cells_are_read_and_other_rows_refused(tmp_path):
    path = write(tmp_path / "in.parquet")
    assert [row for _, row in read_rows(path, columns=["b", "c"])] == [
        {"b": row["b"]} for row in ROWS
    ]
    path = tmp_path / "in.csv"
    path.write_text("\ufeffa\r\n" + "x" * 200_000 + "\r\n", encoding="utf-8")
    assert [row for _, row in read_rows(path)] == [{"a": "x" * 200_000}]
    (tmp_path / "in.jsonl").write_text('{"a": 1}\n[1]\n')
    with pytest.raises(DataError, match=r"line 2: a row is a JSON object, got \[1\]"):
        list(read_chunks(tmp_path / "in.jsonl", 8))


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
