"""Every attack we know of, each between good answers; and all of them between a hundred."""

import os
import sqlite3
from pathlib import Path

import pytest

from dph._processes.workers.handler import memory_bytes
from dph.records import Outcome
from dph.tasks.verifiers.sql.executor import SQLLimits
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier
from hanging_sql import HANG
from shared_data import SOME_AND_ALL
from worker_fixtures import children_of, state_of

GOLD = "SELECT name FROM singer WHERE age > 20"
GOOD = [
    "SELECT name FROM singer WHERE age > 20",
    "WITH c AS (SELECT * FROM singer WHERE age > 20) SELECT name FROM c",
    "SELECT name FROM (SELECT * FROM singer WHERE age > 20)",
    "SELECT p.name FROM singer AS p WHERE NOT p.age <= 20;",
    "SELECT name FROM singer WHERE id IN (3, 4, 5, 6) ORDER BY name DESC -- all of them",
]

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT %d)"
DOUBLING = "WITH c0 AS (SELECT 1 AS x), " + ", ".join(
    f"c{i} AS (SELECT x FROM c{i - 1} UNION ALL SELECT x FROM c{i - 1})" for i in range(1, 40)
)

INVALID, WRONG, OVER, LATE = "INVALID", "WRONG", "OVER_LIMIT", "TIMED_OUT"
REFUSED = f"{INVALID} {OVER}"
ENDED = f"{REFUSED} {LATE} CRASHED"

NOTHING_TO_READ = [
    "INSERT INTO singer VALUES (9, 'x', 99, NULL)",
    "UPDATE singer SET age = 99",
    "DELETE FROM singer WHERE age <= 20",
    "REPLACE INTO singer VALUES (1, 'x', 1, NULL)",
    "WITH x AS (SELECT 1) INSERT INTO singer (id) SELECT 9 FROM x",
    "CREATE TABLE t (a)",
    "PRAGMA table_info(singer)",
    "WITH",
    "WITH x AS (SELECT 1) DELETE FROM singer",
    "WITH x AS (SELECT 1) UPDATE singer SET age = 99 WHERE 1 RETURNING name",
    "DROP TABLE singer",
    "ALTER TABLE singer RENAME TO other",
    "CREATE INDEX i ON singer (age)",
    "CREATE TEMP TRIGGER t AFTER INSERT ON singer BEGIN SELECT 1; END",
    "CREATE TEMP TABLE singer AS SELECT 'x' AS name, 99 AS age",
    "CREATE TEMP VIEW singer AS SELECT 'x' AS name, 99 AS age",
    "CREATE VIRTUAL TABLE temp.f USING fts5(a)",
    *("ATTACH 'new.sqlite' AS other", "ATTACH ':memory:' AS other", "DETACH main", "VACUUM"),
    *("VACUUM INTO 'copy.sqlite'", "BEGIN EXCLUSIVE", "SAVEPOINT s", "PRAGMA query_only = OFF"),
    *("PRAGMA writable_schema = ON", "PRAGMA case_sensitive_like = ON"),
    "PRAGMA reverse_unordered_selects = ON",
    *("PRAGMA hard_heap_limit = 1000", "PRAGMA journal_mode = WAL"),
    "SELECT * FROM pragma_journal_mode('wal')",
    *("ANALYZE", "REINDEX", f"EXPLAIN {GOLD}", "SELECT load_extension('evil.so')"),
    "SELECT fts3_tokenizer('simple', x'41414141')",
    *("SELECT readfile('/etc/passwd')", "SELECT writefile('new.txt', 'x')"),
    *("SELECT edit('x', 'touch new.txt')", f"{GOLD}; DROP TABLE singer", f"SELECT 1; {GOLD}"),
    f"/* SELECT */ DROP TABLE singer -- {GOLD}",
    *(";;; DROP TABLE singer", "", "-- SELECT 1", f"{GOLD}\0", "SELECT 'a\0b'", "SELECT '\ud800'"),
    *("SELECT name FROM singer WHERE age > ?", "SELECT abs(-9223372036854775808)"),
    "SELECT name FROM pragma_table_info('singer')",
    "SELECT file FROM pragma_database_list",
    "SELECT data FROM sqlite_dbpage",
    "SELECT value FROM generate_series(1, 1000000000)",
    "SELECT * FROM fsdir('/etc')",
    "SELECT * FROM zipfile('/etc/x.zip')",
    "WITH x AS (SELECT 1) UPDATE sqlite_master SET sql = '' RETURNING 1",
    "SELECT\u200b name FROM singer WHERE age > 20",
    "SELECT\u00a0name FROM singer WHERE age > 20",
    "\uff33\uff25\uff2c\uff25\uff23\uff34 name FROM singer WHERE age > 20",
    "SELECT n\u0430me FROM singer WHERE age > 20",
    "\ufeff;\ufeff DROP TABLE singer",
    "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a",
]
"""All INVALID."""

BY_OUTCOMES = {
    WRONG: {
        "invalid UTF-8": "SELECT CAST(x'ff80fe' AS TEXT)",
        "blob": "SELECT x'00ff'",
        "infinity": "SELECT 9e999 UNION ALL SELECT -9e999",
        "nan": "SELECT 9e999 - 9e999",
        "all of the odd values": "SELECT * FROM odd",
        "schema": "SELECT * FROM sqlite_master",
        "state": "SELECT changes(), total_changes(), last_insert_rowid()",
        "half of a pair": "SELECT char(55296, 0, 65534)",
        "chance": "SELECT random(), date('now')",
        "no width of printf": "SELECT printf('%.300000000f', 1e300), printf('%,.999999f', 1e300)",
        "list": f"SELECT name FROM singer WHERE id IN ({','.join(map(str, range(30_000)))})",
        "values": "VALUES " + ",".join(["(1)"] * 40_000),
    },
    REFUSED: {
        "parentheses": "SELECT " + "(" * 100_000 + "1" + ")" * 100_000,
        "open parentheses": "SELECT " + "(" * 100_000,
        "brackets in json": "SELECT json('" + "[" * 100_000 + "')",
        "sums": "SELECT 1" + "+1" * 90_000,
        "minuses": "SELECT " + "- " * 90_000 + "1",
        "nots": "SELECT " + "NOT " * 45_000 + "1",
        "unions": "SELECT 1" + " UNION SELECT 1" * 10_000,
        "columns": "SELECT 1" + ",1" * 90_000,
        "subqueries": "SELECT * FROM (" * 10_000 + "SELECT 1" + ")" * 10_000,
        "cases": "SELECT " + "CASE WHEN 1 THEN " * 3000 + "1" + " END" * 3000,
    },
    OVER: {
        "long statement": "SELECT '" + "x" * 1_000_000 + "'",
        "very long statement": "SELECT '" + "x" * 30_000_000 + "'",
        "endless comments": "/* " * 10_000_000,
        "zeroblob": "SELECT zeroblob(2000000000)",
        "randomblob": "SELECT randomblob(1000000000)",
        "hex": "SELECT hex(zeroblob(900000))",
        "replace": "SELECT replace(hex(zeroblob(400000)), '0', '0123456789')",
        "concatenation": (
            "WITH RECURSIVE r(x) AS (SELECT 'ab' UNION ALL SELECT x || x FROM r) SELECT x FROM r"
        ),
        "chain of replace": (
            "SELECT replace(replace(replace(hex(zeroblob(300)), '0', hex(zeroblob(300))), '0', "
            "hex(zeroblob(300))), '0', '0123456789')"
        ),
        "quote": "SELECT quote(zeroblob(900000))",
    },
    ENDED: {
        "doubling": f"{DOUBLING} SELECT count(*) FROM c39",
        "json_group_array": f"{ENDLESS % 10_000_000} SELECT json_group_array(x) FROM r",
        "distinct rows": (
            "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x + 1 FROM r) SELECT count(*) FROM "
            "(SELECT DISTINCT x, hex(zeroblob(4000)) || x FROM r)"
        ),
        "sorted blobs": f"{ENDLESS % 10_000_000} SELECT zeroblob(9000) || x AS y FROM r ORDER BY y",
        "columns of joins": "SELECT * FROM " + ",".join(f"singer s{i}" for i in range(60)),
    },
    f"{OVER} {WRONG}": {
        "printf width": "SELECT printf('%1000000000d', 1)",
        "printf star": "SELECT printf('%*c', 1000000000, 'x')",
        "printf precision": "SELECT printf('%.1000000000f', 1.0)",
    },
    f"{OVER} {LATE}": {
        "group_concat": f"{ENDLESS % 10_000_000} SELECT group_concat(hex(zeroblob(4000))) FROM r",
        "blobs in rows": "SELECT randomblob(999999) FROM singer a, singer b, singer c",
        "rows": f"{ENDLESS % 10_000_000} SELECT x FROM r",
        "wide rows": "SELECT " + ",".join(["randomblob(999000)"] * 1999),
    },
    LATE: {
        "no end": f"{ENDLESS % -1} SELECT count(*) FROM r",
        "no end and no row": f"{ENDLESS % -1} SELECT x FROM r WHERE x < 0",
        "million by million": (
            f"{ENDLESS % 1_000_000}, s AS MATERIALIZED (SELECT x FROM r) "
            "SELECT count(*) FROM s a, s b WHERE a.x + b.x < 0"
        ),
        "thirty tables": "SELECT count(*) FROM " + ",".join(f"singer s{i}" for i in range(30)),
        "instr": "SELECT instr(hex(zeroblob(499999)), hex(zeroblob(249999)) || '1')",
        "search": HANG,
    },
    f"{LATE} {WRONG}": {
        "like": "SELECT hex(zeroblob(20000)) LIKE '" + "%0" * 20 + "%1'",
        "glob": "SELECT hex(zeroblob(20000)) GLOB '" + "*0" * 20 + "*1'",
    },
    f"{WRONG} {INVALID}": {"deep json": "SELECT json_extract('{}', '" + "$.a" * 40_000 + "')"},
}
ATTACKS = {f"{n} {sql[:40]}": (sql, [INVALID]) for n, sql in enumerate(NOTHING_TO_READ)}
ATTACKS |= {
    name: (sql, outcomes.split())
    for outcomes, statements in BY_OUTCOMES.items()
    for name, sql in statements.items()
}


def pair(database, sql):
    return SQLPair(str(database), GOLD, sql)


@pytest.fixture(scope="module")
def verifier():
    """One worker for all attacks, so that what one leaves behind would reach the next."""
    with SQLVerifier(timeout=0.5, limits=SQLLimits(memory_bytes=600_000_000)) as made:
        yield made


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_fails_and_its_neighbours_stay_right(
    name, verifier, singers, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = state_of(tmp_path)
    sql, outcomes = ATTACKS[name]
    judged = verifier.judge([pair(singers, each) for each in (GOOD[0], sql, *GOOD)])
    verdicts = [each.verdict for each in judged]
    assert verdicts[1].outcome in outcomes
    assert verdicts[1].reward == 0.0
    assert verdicts[1].reason
    assert {v.outcome for v in verdicts[:1] + verdicts[2:]} == {Outcome.CORRECT}
    assert state_of(tmp_path) == before


@SOME_AND_ALL
@pytest.mark.parametrize("rule", ["spider", "bird", "strict"])
def test_the_whole_table_changes_no_file_leaves_no_process_and_gives_its_memory_back(
    rule, every, singers, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    others, before, held = children_of(os.getpid()), state_of(tmp_path), memory_bytes(resident=True)
    good = [GOOD[i % 4] for i in range(100)]
    attacks = [sql for sql, _ in ATTACKS.values()][::every]
    mixed, places = [], []
    for index, sql in enumerate(good):
        places.append(len(mixed))
        mixed += [sql, *attacks[index::100]]
    limits = SQLLimits(memory_bytes=600_000_000)
    with SQLVerifier(rule=rule, workers=2, timeout=0.5, limits=limits) as verifier:
        verdicts = [j.verdict for j in verifier.judge([pair(singers, sql) for sql in mixed])]
        verifier.judge([pair(singers, sql) for sql in good])
        workers = children_of(os.getpid()) - others
        assert 1 <= len(workers) <= 2
        assert all(_resident(worker) < 400_000_000 for worker in workers)
    assert {verdicts[place].outcome for place in places} == {Outcome.CORRECT}
    assert state_of(tmp_path) == before
    assert children_of(os.getpid()) == others
    assert memory_bytes(resident=True) - held < 50_000_000


def _resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000, b"SQLite format 3\0" * 500])
def test_a_missing_or_corrupt_database_is_a_bad_gold_and_stays_as_it_is(
    content, verifier, singers, tmp_path
):
    path = tmp_path / "broken.sqlite"
    if content is not None:
        path.write_bytes(content)
    before = state_of(tmp_path)
    judged = verifier.judge([pair(path, GOOD[0]), pair(singers, GOOD[0])])
    assert [each.verdict.outcome for each in judged] == [Outcome.BAD_GOLD, Outcome.CORRECT]
    assert state_of(tmp_path) == before


def test_a_database_that_is_damaged_in_the_middle_is_no_crash(verifier, tmp_path):
    path = tmp_path / "damaged.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE singer (name TEXT, age INT)")
    connection.executemany("INSERT INTO singer VALUES (?, ?)", [("x" * 500, i) for i in range(500)])
    connection.commit()
    connection.close()
    content = bytearray(path.read_bytes())
    content[8192:60_000] = os.urandom(60_000 - 8192)
    path.write_bytes(content)
    outcome = verifier.judge([pair(path, GOOD[0])])[0].verdict.outcome
    assert outcome in (Outcome.BAD_GOLD, Outcome.CORRECT)


def test_like_and_order_are_those_of_a_fresh_connection_after_the_attacks(verifier, singers):
    attack = ["PRAGMA case_sensitive_like = ON", "PRAGMA reverse_unordered_selects = ON"]
    gold = "SELECT 'A' LIKE 'a', (SELECT name FROM singer LIMIT 1)"
    sqls = [*attack, "SELECT 1, 'singer 1'", *attack, "SELECT 1, 'singer 1'"]
    judged = verifier.judge([SQLPair(str(singers), gold, sql) for sql in sqls])
    assert [each.verdict.outcome for each in judged] == [*INVALIDS, Outcome.CORRECT] * 2


INVALIDS = [Outcome.INVALID] * 2
