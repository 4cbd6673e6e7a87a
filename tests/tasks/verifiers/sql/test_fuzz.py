"""Generated statements and responses: no crash, no hang, no wrong CORRECT."""

import random
import sqlite3
import time
from contextlib import closing

import pytest

from dph.records import Outcome, Problem
from dph.tasks.verifiers.sql.executor import SQLLimits
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier

GOLDS = [
    "SELECT name FROM singer WHERE age > 20",
    "SELECT count(*), country FROM singer GROUP BY country",
    "SELECT name, age FROM singer ORDER BY age DESC LIMIT 3",
    "SELECT max(age) FROM singer WHERE country IS NOT NULL",
    "SELECT label FROM odd WHERE value IS NULL",
    "SELECT T1.name FROM singer AS T1 JOIN singer AS T2 ON T1.age = T2.age + 10",
]
WORDS = """
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT DISTINCT JOIN ON AS AND OR NOT IN UNION ALL EXCEPT
INTERSECT WITH RECURSIVE VALUES LIKE GLOB NULL CASE WHEN THEN END EXISTS OVER name age country id
singer odd label value sqlite_master T1 T2 * , ( ) ; . + - / % || = < > <> <= 0 1 20 -1 9e999
1e308 9223372036854775807 '' 'France' x'00ff' "age" [age] `age` count(*) max(age) random()
zeroblob(99999999) randomblob(9) char(0) abs( printf('%99d',1) load_extension('x')
json_each('[1]') -- /* */ ? :a @b $c PRAGMA DROP ATTACH DELETE UPDATE INSERT CREATE TEMP EXPLAIN
VACUUM ' " ` [ ]
"""
PIECES = [*WORDS.split(), "\0", "\ud800", "\ufffe", "é", "漢", "\u202e", "\t", "\r\n"]
WRAPPINGS = [
    *("{}", "```sql\n{}\n```", "~~~\n{}\n~~~", "```\n{}", "<answer>{}</answer>", "I think:\n{}\n"),
    '<tool_call>{{"sql": "{}"}}</tool_call>',
    "```sql\n-- Your SQL query\n```\n{}",
]
few_and_many = pytest.mark.parametrize(
    "count", [1_000, pytest.param(6_000, marks=pytest.mark.slow)]
)


def mutated(rng, sql):
    """The statement with some of its words lost, doubled, moved, replaced or joined by others."""
    words = sql.split(" ")
    for _ in range(rng.choice([0, 1, 1, 2, 3, 8])):
        place, change = rng.randrange(len(words) + 1), rng.randrange(5)
        if change == 0:
            words[place:place] = [rng.choice(PIECES)]
        elif change == 1:
            words[place : place + 1] = [rng.choice(PIECES)]
        elif change == 2 and len(words) > 1:
            del words[place : place + 1]
        elif change == 3:
            words[place:place] = words[: rng.randrange(4)]
        else:
            rng.shuffle(words)
    return rng.choice([" ", " ", "\n", "  "]).join(words)


def noise(rng):
    """Pieces without any order, or any characters at all."""
    if rng.random() < 0.5:
        return " ".join(rng.choices(PIECES, k=rng.randrange(1, 30)))
    return bytes(rng.choices(range(256), k=rng.randrange(80))).decode("utf-8", "surrogateescape")


def statement(rng, gold):
    return noise(rng) if rng.random() < 0.15 else mutated(rng, gold)


def oracle(path, sql):
    """The set of rows of plain sqlite3, or None where it has none."""
    uri = f"file:{path}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
        deadline = time.monotonic() + 0.3
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        try:
            return frozenset(connection.execute(sql).fetchmany(50_000))
        except (sqlite3.Error, ValueError, OverflowError):
            return None


@pytest.fixture(scope="module")
def fuzzed():
    with SQLVerifier(workers=2, timeout=1.0, limits=SQLLimits(rows=50_000)) as verifier:
        yield verifier


@few_and_many
def test_generated_statements_are_correct_exactly_where_sqlite_says_so(fuzzed, singers, count):
    rng = random.Random(0)
    golds = [rng.choice(GOLDS) for _ in range(count)]
    sqls = [statement(rng, gold) for gold in golds]
    expected = {gold: oracle(singers, gold) for gold in GOLDS}
    judged = fuzzed.judge(
        [SQLPair(str(singers), gold, sql) for gold, sql in zip(golds, sqls, strict=True)]
    )
    seen = set()
    for gold, sql, result in zip(golds, sqls, judged, strict=True):
        outcome = result.verdict.outcome
        seen.add(outcome)
        assert outcome not in (Outcome.CRASHED, Outcome.BAD_GOLD), sql
        if "random" in sql:
            continue
        right = oracle(singers, sql) == expected[gold]
        if outcome is Outcome.CORRECT:
            assert right, sql
        elif outcome is Outcome.WRONG:
            assert not right, sql
    assert seen >= {Outcome.CORRECT, Outcome.WRONG, Outcome.INVALID}


@few_and_many
def test_generated_responses_are_graded_by_what_is_extracted(fuzzed, singers, count):
    rng = random.Random(1)
    golds = [rng.choice(GOLDS) for _ in range(count)]
    responses = [
        noise(rng)[:9] + rng.choice(WRAPPINGS).replace("{}", statement(rng, gold)) for gold in golds
    ]
    problems = [
        Problem(problem_id="p", prompt="?", answer={"gold_sql": gold, "database": str(singers)})
        for gold in golds
    ]
    expected = {gold: oracle(singers, gold) for gold in GOLDS}
    verdicts = fuzzed.grade(problems, responses)
    for gold, response, verdict in zip(golds, responses, verdicts, strict=True):
        assert verdict.outcome not in (Outcome.CRASHED, Outcome.BAD_GOLD), response
        found = extract_sql(response)
        assert (found is None) == (verdict.outcome is Outcome.NO_ANSWER)
        if verdict.outcome is Outcome.CORRECT and "random" not in response:
            assert oracle(singers, found.statement) == expected[gold], response
