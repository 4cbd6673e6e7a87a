import pytest

from dph.records import Outcome
from dph.tasks.verifiers.sql import handler as sql_grading
from dph.tasks.verifiers.sql.executor import SQLFailure, SQLLimits
from dph.tasks.verifiers.sql.handler import Gold, GoldCache, SQLGrader
from dph.tasks.verifiers.sql.rules import RULES, bird


@pytest.fixture
def grade(singers):
    grader = SQLGrader(SQLLimits(rows=30), RULES["bird"])
    stages = []

    def call(gold, sql, database=singers):
        stages.clear()
        answer = grader({"database": str(database), "gold": gold, "sql": sql}, stages.append)
        return answer, list(stages)

    return call


def gold(size):
    return Gold(frozenset(), size, "")


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


def test_the_cache_drops_the_least_recently_used_and_holds_no_more_bytes_than_it_may():
    cache = GoldCache(entries=2)
    keys = [("db", (0, 0), sql) for sql in "abc"]
    for key in keys[:2]:
        cache.put(key, gold(1))
    cache.get(keys[0])
    cache.put(keys[2], SQLFailure(Outcome.INVALID, ""))
    assert [cache.get(key) is not None for key in keys] == [True, False, True]
    cache = GoldCache(size=10)
    keys = [("db", (0, 0), sql) for sql in "abcd"]
    for key, size in zip(keys, (6, 4, 1, 11), strict=True):
        cache.put(key, gold(size))
        assert len(cache) == {"a": 1, "b": 2, "c": 2, "d": 0}[key[2]]
    cache.put(keys[0], gold(10))
    assert len(cache) == 1


def test_a_message_of_sqlite_is_one_short_line_whatever_the_statement_holds(grade):
    for sql in ["SELECT [a\n\x1b[2J" + "b" * 100_000 + "] FROM singer", "X" * 100_000]:
        (outcome, _, reason), _ = grade("SELECT name FROM singer", sql)
        assert outcome == "INVALID"
        assert reason.isprintable()
        assert len(reason) <= 200
