import math
import os
import shutil
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from dph.records import Outcome
from dph.tasks.verifiers.sql import executor as sql_grading
from dph.tasks.verifiers.sql.executor import (
    SQLFailure,
    SQLGrader,
    SQLLimits,
    SQLResult,
    database_state,
    database_uri,
    execute_sql,
    why_unreadable,
)
from dph.tasks.verifiers.sql.rules import RULES, bird
from worker_fixtures import state_of


def executed(database, sql, **limits):
    return execute_sql(database_uri(database), sql, SQLLimits(**limits))


def test_a_select_returns_its_rows_and_odd_values_as_they_are(singers):
    result = executed(singers, "SELECT id, country FROM singer WHERE age > 40 ORDER BY id")
    assert result == SQLResult([(5, "France"), (6, None)], size=4 * 16 + len("France"))
    rows = dict(executed(singers, "SELECT * FROM odd").rows)
    assert rows["bytes"] == b"\x00\xff"
    assert math.isinf(rows["inf"])
    assert rows["nan"] is None  # SQLite stores NaN as NULL
    assert rows["bad text"] == "\udcffA"


def test_more_rows_or_bytes_than_allowed_are_over_the_limit(singers, monkeypatch):
    sql = "SELECT 1 FROM singer a, singer b, singer c"  # 6 ** 3 = 216 rows
    assert len(executed(singers, sql, rows=216).rows) == 216
    assert executed(singers, sql, rows=215) == SQLFailure(Outcome.OVER_LIMIT, "more than 215 rows")
    sql = "SELECT zeroblob(1000), 'é' FROM singer"  # 6 * (1000 + 1 + 2 * 16)
    assert executed(singers, sql, result_bytes=6198).size == 6198
    assert executed(singers, sql, result_bytes=6197).outcome is Outcome.OVER_LIMIT

    def no_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr("dph.tasks.verifiers.sql.executor._fetch", no_memory)
    assert executed(singers, "SELECT 1") == SQLFailure(Outcome.OVER_LIMIT, "out of memory")


def test_of_equal_rows_one_is_counted_if_the_others_do_not_matter(singers):
    sql = "SELECT a.name, 'é' FROM singer a, singer, singer c"
    limits = SQLLimits(rows=6, result_bytes=6 * (8 + 1 + 2 * 16))
    result = execute_sql(database_uri(singers), sql, limits, distinct=True)
    assert result == SQLResult([(f"singer {i}", "é") for i in range(1, 7)], limits.result_bytes)
    assert executed(singers, sql, rows=6).outcome is Outcome.OVER_LIMIT
    sql = "SELECT a.id, c.id FROM singer a, singer c"
    result = execute_sql(database_uri(singers), sql, limits, distinct=True)
    assert result == SQLFailure(Outcome.OVER_LIMIT, "more than 6 rows")


def test_big_rows_are_counted_before_they_fill_the_memory(singers):
    sql = "SELECT zeroblob(999000) FROM singer a, singer b, singer c, singer d"
    tracemalloc.start()
    assert executed(singers, sql, result_bytes=2_000_000).outcome is Outcome.OVER_LIMIT
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20_000_000


def test_slow_rows_are_timed_out_between_two_batches(singers):
    # One row is a call of one C function, which SQLite does not interrupt.
    sql = "SELECT hex(randomblob(400000)) FROM singer a, singer b, singer c, singer d"
    assert executed(singers, sql, seconds=0.05) == SQLFailure(Outcome.TIMED_OUT, "over 0.05 s")


def test_what_sqlite_reads_over_views_json_and_windows_are_allowed(singers):
    for before in ("\ufeff", ";", "-- a\n; /* b **/ ;", "\t\r\n\f", "\ufeff--\n\ufeff"):
        assert executed(singers, f"{before}SELECT 1").rows == [(1,)], before
        assert executed(singers, f"{before}DROP TABLE singer").outcome is Outcome.INVALID
    connection = sqlite3.connect(singers)
    connection.execute("CREATE VIEW old AS SELECT * FROM singer WHERE age > 50")
    connection.close()
    assert executed(singers, "SELECT id FROM old").rows == [(6,)]
    assert executed(singers, "SELECT value FROM json_each('[1, 2]')").rows == [(1,), (2,)]
    sql = "SELECT row_number() OVER (ORDER BY age DESC) FROM singer WHERE name LIKE '%1'"
    assert executed(singers, sql).rows == [(1,)]


def test_a_wal_database_is_read_without_a_file_beside_it(tmp_path):
    path = tmp_path / "a ?#%b.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t AS SELECT 7 AS x")
    connection.commit()
    assert "immutable" not in database_uri(path)
    assert executed(path, "SELECT x FROM t").rows == [(7,)]
    connection.close()
    assert "immutable" in database_uri(path)
    assert executed(path, "SELECT x FROM t").rows == [(7,)]
    assert list(tmp_path.iterdir()) == [path]


def test_a_log_beside_a_database_is_read_and_nothing_there_changes(tmp_path):
    path, live = tmp_path / "copy.sqlite", tmp_path / "live.sqlite"
    writer = sqlite3.connect(live, isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE t AS SELECT 7 AS x")
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(f"{live}{suffix}", f"{path}{suffix}")
    assert executed(live, "SELECT x FROM t").rows == [(7,)]
    before = state_of(tmp_path)
    assert executed(path, "SELECT x FROM t").rows == [(7,)]  # as a killed writer leaves it
    assert why_unreadable(path) == ""
    assert state_of(tmp_path) == before
    Path(f"{path}-shm").unlink()
    before = state_of(tmp_path)
    assert "open it once for writing" in why_unreadable(path)
    assert executed(path, "SELECT x FROM t").outcome is Outcome.INVALID
    assert state_of(tmp_path) == before
    writer.close()


def test_an_unfinished_transaction_is_not_rolled_back(tmp_path):
    path, live = tmp_path / "copy.sqlite", tmp_path / "live.sqlite"
    writer = sqlite3.connect(live, isolation_level=None)
    writer.execute("CREATE TABLE t AS SELECT 7 AS x")
    writer.execute("PRAGMA cache_size=1")
    writer.execute("BEGIN")
    for _ in range(20):
        writer.execute("INSERT INTO t VALUES (zeroblob(5000))")
    for suffix in ("", "-journal"):
        shutil.copy(f"{live}{suffix}", f"{path}{suffix}")
    before = state_of(tmp_path)
    assert executed(path, "SELECT x FROM t").outcome is Outcome.INVALID
    assert state_of(tmp_path) == before
    writer.close()


@pytest.mark.parametrize(
    "name", ["a?mode=rwc&x=", "a%00%2e", "file:a", "a'b\"c;d", "漢 字", "\udcff", "a\nb"]
)
def test_a_name_is_only_a_name(tmp_path, name):
    path = tmp_path / "folder # 1" / f"{name}.sqlite"
    path.parent.mkdir()
    assert executed(path, "SELECT 1").outcome is Outcome.INVALID
    assert list(path.parent.iterdir()) == []
    connection = sqlite3.connect(os.fsencode(path))
    connection.execute("CREATE TABLE t AS SELECT 7 AS x")
    connection.commit()
    connection.close()
    assert executed(path, "SELECT x FROM t").rows == [(7,)]
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    assert executed(link, "SELECT x FROM t").rows == [(7,)]


def test_the_state_of_a_database_changes_with_the_file(singers, tmp_path):
    before = database_state(singers)
    connection = sqlite3.connect(singers)
    connection.execute("CREATE TABLE more AS SELECT zeroblob(10000)")
    connection.close()
    assert database_state(singers) != before
    assert database_state(tmp_path / "none") is None
    assert database_state(tmp_path) is None
    os.mkfifo(tmp_path / "pipe")
    assert database_state(tmp_path / "pipe") is None


@pytest.fixture
def grade(singers):
    grader = SQLGrader(SQLLimits(rows=30), RULES["bird"])
    stages = []

    def call(gold, sql, database=singers):
        stages.clear()
        answer = grader({"database": str(database), "gold": gold, "sql": sql}, stages.append)
        return answer, list(stages)

    return call


@pytest.mark.parametrize("label", ["bytes", "inf", "nan", "null", "bad text"])
def test_odd_values_equal_themselves_and_no_other(grade, label):
    sql = "SELECT value, CAST(x'ff' AS TEXT), 9e999, -9e999 FROM odd WHERE label LIKE '%s'"
    pattern = label if label != "bad text" else "%A"
    assert grade(sql % pattern, sql % pattern)[0][0] == "CORRECT"


def test_the_gold_is_run_once_for_each_state_of_the_database(grade, singers):
    sql = "SELECT count(*) FROM singer"
    assert grade(sql, sql) == (["CORRECT", 1.0, ""], ["gold", "prediction"])
    assert grade(sql, sql) == (["CORRECT", 1.0, ""], [])
    singers.touch()
    assert grade(sql, sql) == (["CORRECT", 1.0, ""], ["gold", "prediction"])


def test_a_gold_that_cannot_be_run_is_a_bad_gold(grade, tmp_path):
    for sql, words in [
        ("SELECT missing FROM singer", "no such column"),
        ("DELETE FROM singer", "DELETE"),
        ("SELECT s.id, singer.id FROM singer, singer s", "OVER_LIMIT"),
    ]:
        (outcome, _, reason), _ = grade(sql, "SELECT 1")
        assert outcome == "BAD_GOLD"
        assert words in reason
    (outcome, _, reason), _ = grade("SELECT 1", "SELECT 1", tmp_path / "none.sqlite")
    assert outcome == "BAD_GOLD"
    assert "none.sqlite" in reason
    path = tmp_path / "log.sqlite"
    path.touch()
    (tmp_path / "log.sqlite-wal").write_bytes(b"x")
    (outcome, _, reason), _ = grade("SELECT 1", "SELECT 1", path)
    assert outcome == "BAD_GOLD"
    assert "-wal" in reason


@pytest.mark.parametrize("nothing", ["", " \n", "-- a\n", "/* never closed", ";", "\ufeff", ";--"])
@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        *((rule, "CORRECT") for rule in ("spider", "bird", "bird_soft_f1")),
        *((rule, "NO_ANSWER") for rule in ("strict", "cartesian")),
    ],
)
def test_a_whole_answer_of_nothing_is_an_empty_result_where_the_official_tool_takes_it_for_one(
    singers, rule, outcome, nothing
):
    grader = SQLGrader(SQLLimits(), RULES[rule])

    def judge(gold, **more):
        request = {"database": str(singers), "gold": gold, "sql": nothing} | more
        return grader(request, lambda _: None)

    empty = "SELECT name FROM singer WHERE age > 100"
    reward = float(outcome == "CORRECT")
    assert judge(empty, whole=True)[:2] == [outcome, reward]
    assert judge("SELECT name FROM singer", whole=True)[:2] == ["NO_ANSWER", 0.0]
    assert judge("SELECT nothing", whole=True)[0] == "BAD_GOLD"
    assert judge(empty)[:2] == ["INVALID", 0.0]


def test_comparing_many_rows_is_a_stage_and_out_of_memory_there_is_over_the_limit(
    grade, monkeypatch
):
    monkeypatch.setattr(sql_grading, "_MANY_ROWS", 5)
    sql = "SELECT id FROM singer"
    assert grade(sql, sql)[1] == ["gold", "prediction", "comparison"]
    assert grade(sql, f"{sql} LIMIT 5")[1] == []

    def no_memory(*_):
        raise MemoryError

    assert grade("SELECT 1", "SELECT 1")[0][0] == "CORRECT"
    monkeypatch.setattr(bird, "frozenset", no_memory, raising=False)
    assert grade("SELECT 1", "SELECT 1")[0] == ["OVER_LIMIT", 0.0, "out of memory"]
    assert grade("SELECT 2", "SELECT 2")[0][0] == "BAD_GOLD"


def test_a_message_of_sqlite_is_one_short_line_whatever_the_statement_holds(grade):
    for sql in ["SELECT [a\n\x1b[2J" + "b" * 100_000 + "] FROM singer", "X" * 100_000]:
        (outcome, _, reason), _ = grade("SELECT name FROM singer", sql)
        assert outcome == "INVALID"
        assert reason.isprintable()
        assert len(reason) <= 200
