import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dph._processes.workers import pool
from dph.cli import main
from dph.cli.grade import summary_text
from dph.records import Outcome
from dph.tasks.grading import GradeSummary
from hanging_sql import HANG

GOLD = "SELECT count(*) FROM singer"
SLOW = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x FROM r) SELECT count(*) FROM r"


@pytest.fixture
def databases(tmp_path):
    path = tmp_path / "databases" / "singers" / "singers.sqlite"
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE singer AS SELECT 'x' AS name")
    connection.commit()
    connection.close()
    return tmp_path / "databases"


def write(path, predictions, column="pred_sql", **more):
    rows = [{"db_id": "singers", "gold_sql": GOLD, column: sql, **more} for sql in predictions]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def arguments(source, databases, target, *more):
    words = ["grade", "sql", "--input", source, "--databases", databases, "--out", target, *more]
    return [str(word) for word in words]


def test_rows_come_out_with_their_verdicts_and_a_summary_is_printed(tmp_path, databases, capsys):
    source = write(tmp_path / "in.jsonl", ["SELECT 1", "SELECT 2", "SELECT nope", None])
    target = tmp_path / "out.jsonl"
    assert main(arguments(source, databases, target, "--rule", "spider", "--workers", 1)) == 0
    rows = read(target)
    assert [row["outcome"] for row in rows] == ["CORRECT", "WRONG", "INVALID", "NO_ANSWER"]
    assert [row["reward"] for row in rows] == [1.0, 0.0, 0.0, 0.0]
    assert rows[2]["reason"] == "no such column: nope"
    source.write_text('{"db_id": "singers", "answer": "SELECT 1"}\n')
    output = capsys.readouterr()
    assert "CORRECT             1    25.0%" in output.out
    assert "4 rows, mean reward 0.2500" in output.out
    assert "rows/s" in output.out
    assert "grade: 4/4 rows" in output.err
    assert main(arguments(source, databases, target)) == 2
    assert "no column 'gold_sql', 'pred_sql'; it has db_id, answer" in capsys.readouterr().err


@pytest.mark.parametrize("more", [{}, {"pred_sql": "SELECT 2"}])
def test_the_query_is_extracted_from_the_column_that_is_named_response(tmp_path, databases, more):
    texts = ["I think:\n```sql\nSELECT 1\n```", "I cannot."]
    source, target = write(tmp_path / "in.jsonl", texts, "output", **more), tmp_path / "out.jsonl"
    assert main(arguments(source, databases, target, "--column", "response=output")) == 0
    assert [row["outcome"] for row in read(target)] == ["CORRECT", "NO_ANSWER"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--rule", "birds"], "'birds' is not one of"),
        (["--workers", "0"], "greater than or equal to 1"),
        (["--timeout", "0"], "timeout must be a positive"),
        (["--databases", "nowhere"], "not a directory: nowhere"),
        (["--input", "none.jsonl"], "there is no file none.jsonl"),
        (["--input", "in.txt"], "must end in one of"),
        (["--out", "out.txt"], "must end in one of"),
    ],
)
def test_bad_input_is_named_in_one_line(refusal, tmp_path, databases, monkeypatch, change, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", ["SELECT 1"])
    assert words in refusal(*arguments("in.jsonl", databases, "out.jsonl", *change))
    assert not (tmp_path / "out.jsonl").exists()


def test_a_graded_file_is_graded_again_by_another_rule(tmp_path, databases, capsys):
    source = write(tmp_path / "in.jsonl", ["SELECT 1", "SELECT 1 UNION ALL SELECT 1", "", ";"])
    first, second = tmp_path / "bird.jsonl", tmp_path / "strict.jsonl"
    assert main(arguments(source, databases, first, "--rule", "bird")) == 0
    assert main(arguments(first, databases, second, "--rule", "strict")) == 2
    assert "--replace" in capsys.readouterr().err
    assert main(arguments(first, databases, second, "--rule", "strict", "--replace")) == 0
    assert [row["reward"] for row in read(first)] == [1.0, 1.0, 0.0, 0.0]
    assert [row["reward"] for row in read(second)] == [1.0, 0.0, 0.0, 0.0]
    assert [row["outcome"] for row in read(second)][2:] == ["NO_ANSWER"] * 2


def test_a_gold_that_hangs_is_paid_once(tmp_path, databases, monkeypatch):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    row = {"db_id": "singers", "gold_sql": HANG, "pred_sql": "SELECT 1"}
    good = {"db_id": "singers", "gold_sql": GOLD, "pred_sql": "SELECT 1"}
    source.write_text("".join(json.dumps(r) + "\n" for r in [row, good] * 50))
    started, start = [], pool._Work._start_worker
    monkeypatch.setattr(pool._Work, "_start_worker", lambda w: started.append(w) or start(w))
    assert main(arguments(source, databases, target, "--workers", 2, "--timeout", 0.5)) == 0
    assert len(started) < 10  # each that the statement hung is replaced: 50 of them would be
    assert [row["outcome"] for row in read(target)] == ["BAD_GOLD", "CORRECT"] * 50


def _descendants(pid):
    found = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found |= {int(child)} | _descendants(int(child))
    return found


@pytest.mark.slow
def test_a_killed_command_goes_on_and_leaves_no_process(document, tmp_path, databases, capsys):
    predictions = ["SELECT 1"] * 3000 + [SLOW] + ["SELECT 2"] * 1000
    source, target = write(tmp_path / "in.jsonl", predictions), tmp_path / "out.jsonl"
    words = arguments(source, databases, target, "--timeout", 4)
    command = subprocess.Popen(
        [sys.executable, "-c", "import sys; from dph.cli import main; main(sys.argv[1:])", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    parts = tmp_path / ".out.jsonl.parts"
    first = [parts / "000000.jsonl", parts / "000001.jsonl"]  # chunks finish in any order
    deadline = time.monotonic() + 60
    while not all(part.exists() for part in first) and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = _descendants(command.pid)
    command.send_signal(signal.SIGKILL)
    command.wait()
    assert workers
    assert not target.exists()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert main(arguments(source, databases, target, "--resume", "--timeout", 0.5)) == 2
    assert "different grader" in capsys.readouterr().err
    write(source, predictions)  # the same bytes are the same input
    source.touch()
    assert main(arguments(source, databases, target, "--resume", "--timeout", 4, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == 4001
    assert document["graded_now"] <= 4001 - 2048
    outcomes = [row["outcome"] for row in read(target)]
    assert outcomes == ["CORRECT"] * 3000 + ["TIMED_OUT"] + ["WRONG"] * 1000


def test_what_an_earlier_run_had_finished_is_said():
    outcomes = dict.fromkeys(Outcome, 0) | {Outcome.CORRECT: 3, Outcome.WRONG: 1}
    summary = GradeSummary(rows=4, outcomes=outcomes, mean_reward=0.75, graded=0, seconds=0.5)
    text = summary_text(summary, Path("out.jsonl"))
    assert "4 rows (4 of them by an earlier run), mean reward 0.7500, 0.5 s -> out.jsonl" in text
    assert "TIMED_OUT" not in text
