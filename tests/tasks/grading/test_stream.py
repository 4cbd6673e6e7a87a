import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph._base.files.rows import read_rows
from dph.errors import DataError
from dph.records import Outcome, Verdict
from dph.tasks.grading import GradedRow, grade_file

WRONG = Verdict(outcome=Outcome.WRONG, reward=0.25, reason="no")
RIGHT = Verdict(outcome=Outcome.CORRECT, reward=1.0)


@dataclass
class EvenIsRight:
    """Rows with an even ``n`` are right; counts what it graded, and fails at ``fail_at``."""

    rule: str = "even"
    fail_at: int | None = None
    graded: list[int] = field(default_factory=list)
    required: tuple[str, ...] = ("n",)

    @property
    def settings(self):
        return {"rule": self.rule}

    def grade_rows(self, rows):
        numbers = [row["n"] for row in rows]
        if self.fail_at in numbers:
            raise RuntimeError(f"fails at {self.fail_at}")
        self.graded += numbers
        return [GradedRow(RIGHT if n % 2 == 0 else WRONG, 0.5) for n in numbers]


def write(path, count):
    rows = [{"n": n, "text": f"é {n}" if n % 3 else None} for n in range(count)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return rows


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if ".csv" in path.name:
        return [row for _, row in read_rows(path)]
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(rows):
    right = {"reward": 1.0, "outcome": "CORRECT", "reason": "", "seconds": 0.5}
    wrong = {"reward": 0.25, "outcome": "WRONG", "reason": "no", "seconds": 0.5}
    return [row | (wrong if row["n"] % 2 else right) for row in rows]


@pytest.mark.parametrize("out", [".parquet", ".jsonl"])
@pytest.mark.parametrize("into", [".parquet", ".jsonl"])
@pytest.mark.parametrize("count", [1, 8, 9])
def test_the_same_rows_come_out_in_order_with_their_verdicts(tmp_path, into, out, count):
    source, target = tmp_path / f"in{into}", tmp_path / "new" / f"out{out}"
    rows = write(source, count)
    steps = []
    summary = grade_file(
        source, target, grader=EvenIsRight(), chunk_rows=8, on_progress=steps.append
    )
    assert read(target) == expected(rows)
    assert sum(steps) == summary.rows == summary.graded == count
    right = (count + 1) // 2
    assert summary.outcomes[Outcome.CORRECT] == right
    assert summary.outcomes[Outcome.WRONG] == count - right
    assert summary.mean_reward == pytest.approx((right + 0.25 * (count - right)) / count)
    assert summary.rows_per_second > 0
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_no_rows_in_no_rows_out(tmp_path, suffix):
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".jsonl":
        source.write_text("\n")
    else:
        pq.write_table(pa.table({"n": pa.array([], pa.int32())}), source)
    summary = grade_file(source, target, grader=EvenIsRight())
    assert (summary.rows, summary.mean_reward, summary.rows_per_second) == (0, None, None)
    assert read(target) == []
    if suffix == ".parquet":
        assert pq.read_schema(target).names == ["n", "reward", "outcome", "reason", "seconds"]
        assert pq.read_schema(target).field("n").type == pa.int32()


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_a_job_that_broke_goes_on_where_it_stopped(tmp_path, suffix):
    source, target = tmp_path / "in.jsonl", tmp_path / f"out{suffix}"
    rows = write(source, 40)
    with pytest.raises(RuntimeError, match="fails at 25"):
        grade_file(source, target, grader=EvenIsRight(fail_at=25), chunk_rows=4)
    assert not target.exists()
    again = EvenIsRight()
    summary = grade_file(source, target, grader=again, resume=True, chunk_rows=4)
    wanted = expected(rows)
    assert read(target) == ([as_text(row) for row in wanted] if suffix == ".csv" else wanted)
    assert not set(again.graded) & set(range(16))  # four chunks were finished before the fifth
    assert (summary.rows, summary.graded) == (40, len(again.graded))
    assert sum(summary.outcomes.values()) == 40


@pytest.fixture
def broken(tmp_path):
    """The source and target of a job of three chunks that broke in the last one."""
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, 12)
    with pytest.raises(RuntimeError):
        grade_file(source, target, grader=EvenIsRight(fail_at=11), chunk_rows=4)
    return source, target


@pytest.mark.parametrize("change", ["rule", "source", "chunk_rows"])
def test_the_parts_of_another_job_are_refused(broken, change):
    source, target = broken
    if change == "source":
        write(source, 13)
    rule, size = "odd" if change == "rule" else "even", 5 if change == "chunk_rows" else 4
    word = {"rule": "grader", "source": "source", "chunk_rows": "chunk"}[change]
    with pytest.raises(DataError, match=f"different {word}"):
        grade_file(source, target, grader=EvenIsRight(rule), resume=True, chunk_rows=size)


def test_a_job_that_is_done_can_be_resumed_and_regraded(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = write(source, 5)
    for resume in (True, False, True):
        grade_file(source, target, grader=EvenIsRight(), resume=resume)
        assert read(target) == expected(rows)


def test_two_chunks_are_in_flight_and_no_more(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, 24)
    both, running, most = threading.Barrier(2), set(), []

    class Together(EvenIsRight):
        def grade_rows(self, rows):
            running.add(threading.get_ident())
            most.append(len(running))
            both.wait(timeout=60)
            running.discard(threading.get_ident())
            return super().grade_rows(rows)

    grade_file(source, target, grader=Together(), chunk_rows=4)
    assert max(most) == 2


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("in.parquet", None, "there is no file"),
        ("in.jsonl", '{"n": 1}\n{"n": ', "line 2: not valid JSON"),
        ("in.jsonl", '{"m": 1, "o": 2}', "no column 'n'; it has m, o"),
        ("in.jsonl", '{"n": 1, "reward": 2}', "already has the column 'reward'"),
        ("out.jsonl", '{"n": 1}', "a different file from the input"),
    ],
)
def test_a_file_that_cannot_be_graded_is_named(tmp_path, name, content, words):
    source, target = tmp_path / name, tmp_path / "out.jsonl"
    if content is not None:
        source.write_text(content)
    with pytest.raises(DataError, match=words):
        grade_file(source, target, grader=EvenIsRight())


def test_a_row_that_lacks_a_field_is_the_graders_to_judge(tmp_path):
    class Lenient(EvenIsRight):
        def grade_rows(self, rows):
            return [GradedRow(RIGHT if "n" in row else WRONG, 0.0) for row in rows]

    source, target = tmp_path / "in.jsonl", tmp_path / "out.parquet"
    source.write_text('{"n": 1}\n{"other": "x"}\n{"n": 2.5}\n')
    grade_file(source, target, grader=Lenient(), chunk_rows=1)
    rows = read(target)
    assert [row["n"] for row in rows] == [1.0, None, 2.5]
    assert [row["other"] for row in rows] == [None, "x", None]
    assert [row["outcome"] for row in rows] == ["CORRECT", "WRONG", "CORRECT"]


def test_odd_text_survives_and_what_fits_no_table_is_refused(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"n": 2, "text": "\\ud800 \\u0000"}\n{"n": 4, "text": ["a"]}\n')
    grade_file(source, tmp_path / "out.jsonl", grader=EvenIsRight())
    assert [row["text"] for row in read(tmp_path / "out.jsonl")] == ["\ud800 \0", ["a"]]
    for values in (['"a"', '["a"]'], ['"\\ud800"'], ["{}"], [f"{2**64}"], [f"{2**62 + 1}", "0.5"]):
        source.write_text("".join(f'{{"n": 2, "x": {value}}}\n' for value in values))
        with pytest.raises(DataError, match=r"do not fit into one table .* to a \.jsonl file"):
            grade_file(source, tmp_path / "out.parquet", grader=EvenIsRight(), chunk_rows=1)
    pq.write_table(pa.table({"n": [2], "blob": [b"\xff"]}), tmp_path / "in.parquet")
    with pytest.raises(DataError, match=r"write to a \.parquet file"):
        grade_file(tmp_path / "in.parquet", tmp_path / "out.jsonl", grader=EvenIsRight())


def test_types_and_metadata_of_a_table_are_kept(tmp_path):
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table = pa.table(
        {"n": pa.array([1, 2, 3], pa.int8()), "d": pa.array([None, b"x", None], pa.large_binary())}
    ).replace_schema_metadata({"made by": "me"})
    pq.write_table(table, source, row_group_size=2)
    grade_file(source, target, grader=EvenIsRight(), chunk_rows=2)
    found = pq.read_table(target)
    assert found.select(["n", "d"]).replace_schema_metadata() == table.replace_schema_metadata()
    assert found.schema.metadata[b"made by"] == b"me"


def test_a_damaged_part_is_not_taken_for_a_whole_one(broken):
    source, target = broken
    part = source.parent / ".out.jsonl.parts" / "000000.jsonl"
    part.write_text(part.read_text().splitlines(keepends=True)[0])
    with pytest.raises(DataError, match="has 1 rows, its chunk 4"):
        grade_file(source, target, grader=EvenIsRight(), chunk_rows=4, resume=True)


KILLED = """
    import os, sys
    from pathlib import Path
    from dph.tasks.grading import GradedRow, grade_file
    from dph.records import Outcome, Verdict

    class Dies:
        required, settings = ("n",), {"rule": "even"}

        def grade_rows(self, rows):
            if rows[0]["n"] == 20:
                os.kill(os.getpid(), 9)
            verdict = Verdict(outcome=Outcome.CORRECT, reward=1.0)
            return [GradedRow(verdict, 0.5) for _ in rows]

    grade_file(Path(sys.argv[1]), Path(sys.argv[2]), grader=Dies(), chunk_rows=4)
"""


def test_a_kill_loses_no_row(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = write(source, 40)
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(source), str(target)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(script, env=environment, check=False).returncode == -signal.SIGKILL
    again = EvenIsRight()
    grade_file(source, target, grader=again, resume=True, chunk_rows=4)
    assert [row["n"] for row in read(target)] == [row["n"] for row in rows]
    assert len(again.graded) < 40


def test_an_interruption_waits_for_no_answer_and_keeps_what_is_finished(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, 12)
    released, waited = threading.Event(), []

    class Waits(EvenIsRight):
        def grade_rows(self, rows):
            if rows[0]["n"] >= 4:
                waited.append(released.wait(timeout=60))
            return super().grade_rows(rows)

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade_file(source, target, grader=Waits(), chunk_rows=4, on_progress=interrupt)
    assert not waited
    released.set()
    again = EvenIsRight()
    for thread in threading.enumerate():
        if thread.name.startswith("dph-grade"):
            thread.join()
    grade_file(source, target, grader=again, chunk_rows=4, resume=True)
    assert 0 not in again.graded
    assert len(read(target)) == 12


@pytest.mark.parametrize("out", [".parquet", ".jsonl"])
@pytest.mark.parametrize("into", [".parquet", ".jsonl"])
def test_earlier_verdicts_are_left_out_if_that_is_wanted(tmp_path, into, out):
    source, graded, target = (tmp_path / name for name in (f"a{into}", f"b{out}", f"c{out}"))
    rows = write(source, 20)
    grade_file(source, graded, grader=EvenIsRight(), chunk_rows=8)
    with pytest.raises(DataError, match="--replace"):
        grade_file(graded, target, grader=EvenIsRight(), chunk_rows=8)
    grade_file(graded, target, grader=EvenIsRight(), chunk_rows=8, replace=True)
    assert read(target) == expected(rows)
    assert list(read(target)[0]) == ["n", "text", "reward", "outcome", "reason", "seconds"]
    assert read(graded) == expected(rows)


def test_a_verdict_that_only_a_later_row_has_is_not_lost(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"n": 1}\n{"n": 2}\n{"n": 3, "reason": "mine"}\n')
    with pytest.raises(DataError, match="already has the column 'reason'"):
        grade_file(source, target, grader=EvenIsRight(), chunk_rows=2)
    assert not target.exists()
    grade_file(source, target, grader=EvenIsRight(), chunk_rows=2, resume=True, replace=True)
    assert [row["reason"] for row in read(target)] == ["no", "", "no"]


def test_a_column_that_is_there_twice_and_text_that_is_not_utf_8_are_refused(tmp_path):
    source = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 3, names=["n", "x", "x"]), source)
    with pytest.raises(DataError, match="column 'x' more than once"):
        grade_file(source, tmp_path / "out.jsonl", grader=EvenIsRight())
    offsets, data = pa.array([b"\xff"], pa.binary()).buffers()[1:]
    text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, data])
    pq.write_table(pa.table({"n": [1], "text": text}), source)
    with pytest.raises(DataError, match="not UTF-8"):
        grade_file(source, tmp_path / "out.parquet", grader=EvenIsRight())


def test_a_second_run_with_the_same_output_is_refused_and_does_no_harm(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = write(source, 12)

    class StartsAnother(EvenIsRight):
        def grade_rows(self, rows):
            for resume in (True, False):
                with pytest.raises(DataError, match="another dph process is writing"):
                    grade_file(source, target, grader=EvenIsRight(), resume=resume)
            return super().grade_rows(rows)

    grade_file(source, target, grader=StartsAnother(), chunk_rows=4)
    assert read(target) == expected(rows)
    assert sorted(tmp_path.iterdir()) == [source, target]


def test_an_output_that_is_a_directory_stays_one(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write(source, 3)
    (target / "inside").mkdir(parents=True)
    with pytest.raises(DataError, match="is a directory"):
        grade_file(source, target, grader=EvenIsRight())
    assert (target / "inside").is_dir()


class ByText(EvenIsRight):
    def grade_rows(self, rows):
        return super().grade_rows([{"n": int(row["n"])} for row in rows])


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
    assert read(target) == [as_text(row) for row in expected(rows)]
    assert (summary.rows, summary.mean_reward) == (20, 0.625)


def test_what_rows_lack_is_empty_and_what_is_no_text_is_json(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.csv"
    odd = 'a "quoted", text\r\nof é two lines'
    lines = [{"n": 0, "a": odd}, {"n": 2, "b": [1, {"c": None}]}, {"n": 4, "a": True, "d": "\r3"}]
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    grade_file(source, target, grader=EvenIsRight(), chunk_rows=2)
    with target.open(newline="", encoding="utf-8") as file:
        header, *found = csv.reader(file)
    assert header == ["n", "a", "reward", "outcome", "reason", "seconds", "b", "d"]
    right = ["1.0", "CORRECT", "", "0.5"]
    assert found == [
        ["0", odd, *right, "", ""],
        ["2", "", *right, '[1, {"c": null}]', ""],
        ["4", "true", *right, "", "\r3"],
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


def test_what_no_csv_file_can_hold_leaves_none(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.csv"
    source.write_text('{"n": 0, "text": "\\ud800"}\n')
    with pytest.raises(DataError, match=r"cannot be written as UTF-8 .* write to a \.jsonl file"):
        grade_file(source, target, grader=EvenIsRight())
    assert not target.exists()
    with pytest.raises(DataError, match=r"must end in one of \.parquet, \.jsonl, .*\.csv\.gz"):
        grade_file(source, tmp_path / "out.txt", grader=EvenIsRight())
