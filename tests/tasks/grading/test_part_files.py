"""Graded rows as text files; how parts are kept and joined otherwise is in test_stream.py."""

import csv
import gzip
import json

import pytest

from dph._base.files.rows import read_rows
from dph.errors import DataError
from dph.tasks.grading import grade_file
from tasks.grading.test_stream import EvenIsRight, expected, read, write


class ByText(EvenIsRight):
    """The same for numbers that a CSV file has as texts."""

    def grade_rows(self, rows):
        return super().grade_rows([{"n": int(row["n"])} for row in rows])


def read_csv(path):
    return [row for _, row in read_rows(path)]


def as_text(row):
    texts = {name: "" if value is None else value for name, value in row.items()}
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in texts.items()}


@pytest.mark.parametrize("into", [".jsonl", ".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("out", [".csv", ".csv.gz"])
def test_a_csv_file_is_written_as_it_would_be_read(tmp_path, into, out):
    """A source that is CSV is what grading wrote of JSON lines before."""
    source, target, again = tmp_path / f"in{into}", tmp_path / f"out{out}", "csv" in into
    rows = write(tmp_path / "plain.jsonl" if again else source, 20)
    if again:
        grade_file(tmp_path / "plain.jsonl", source, grader=EvenIsRight(), chunk_rows=8)
    summary = grade_file(source, target, grader=ByText(), chunk_rows=8, replace=again)
    assert read_csv(target) == [as_text(row) for row in expected(rows)]
    assert (summary.rows, summary.mean_reward) == (20, 0.625)


def test_what_rows_lack_is_empty_and_what_is_no_text_is_json(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.csv"
    odd = 'a "quoted", text\r\nof é two lines'
    lines = [{"n": 0, "a": odd}, {"n": 2, "b": [1, {"c": None}]}, {"n": 4, "a": True, "d": "3"}]
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    grade_file(source, target, grader=EvenIsRight(), chunk_rows=2)
    with target.open(newline="", encoding="utf-8") as file:
        header, *found = csv.reader(file)
    assert header == ["n", "a", "reward", "outcome", "reason", "seconds", "b", "d"]
    right = ["1.0", "CORRECT", "", "0.5"]
    assert found == [
        ["0", odd, *right, "", ""],
        ["2", "", *right, '[1, {"c": null}]', ""],
        ["4", "true", *right, "", "3"],
    ]


def test_a_csv_file_without_rows_keeps_its_columns(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("n,text\n")
    grade_file(source, target, grader=ByText())
    assert target.read_text() == "n,text,reward,outcome,reason,seconds\n"


def test_packed_files_are_the_same_bytes_each_time(tmp_path):
    source = tmp_path / "in.jsonl"
    rows = write(source, 20)
    files = [tmp_path / name for name in ("a.jsonl.gz", "b.jsonl.gz")]
    for target in files:
        grade_file(source, target, grader=EvenIsRight(), chunk_rows=8)
    assert files[0].read_bytes() == files[1].read_bytes()
    (tmp_path / "out.jsonl").write_bytes(gzip.decompress(files[0].read_bytes()))
    assert read(tmp_path / "out.jsonl") == expected(rows)


def test_a_broken_job_goes_on_into_a_csv_file(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.csv"
    rows = write(source, 40)
    with pytest.raises(RuntimeError, match="fails at 25"):
        grade_file(source, target, grader=EvenIsRight(fail_at=25), chunk_rows=4)
    assert not target.exists()
    summary = grade_file(source, target, grader=EvenIsRight(), resume=True, chunk_rows=4)
    assert summary.graded < summary.rows == 40
    assert read_csv(target) == [as_text(row) for row in expected(rows)]


def test_what_no_csv_file_can_hold_leaves_none(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.csv"
    source.write_text('{"n": 0, "text": "\\ud800"}\n')
    with pytest.raises(DataError, match=r"cannot be written as UTF-8 .* write to a \.jsonl file"):
        grade_file(source, target, grader=EvenIsRight())
    assert not target.exists()
    with pytest.raises(DataError, match=r"must end in one of \.parquet, \.jsonl, .*\.csv\.gz"):
        grade_file(source, tmp_path / "out.txt", grader=EvenIsRight())
