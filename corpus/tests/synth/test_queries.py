import sqlite3

import pytest

from dph.tasks.verifiers.sql.verifier import SQLVerifier
from dph_corpus.synth.drafts import QueryJudge, query_mutants

ROWS = "('Rex', 3, 'dog'), ('Tom', 5, 'cat'), ('Ann', 4, 'cat'), ('Bo', 9, 'dog'), ('Cy', 1, 'cat')"


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    directory = tmp_path_factory.mktemp("databases")
    with sqlite3.connect(directory / "pets.sqlite") as connection:
        connection.executescript(
            f"CREATE TABLE pet (name TEXT, age INT, kind TEXT); INSERT INTO pet VALUES {ROWS};"
        )
    connection.close()
    with SQLVerifier(databases=directory, rule="strict", timeout=2.0) as verifier:
        yield QueryJudge(verifier)


def answer(query, question="Which cats are older than three?"):
    return f"Question: {question}\n\n```sql\n{query}\n```\n"


GOOD = "SELECT name FROM pet WHERE kind = 'cat' AND age > 3"


def test_a_query_that_its_mutants_do_not_equal_is_kept(judge):
    (judged,) = judge([answer(GOOD)], ["pets.sqlite"])
    assert judged.reason == ""
    assert judged.draft.question == "Which cats are older than three?"
    assert judged.draft.query == GOOD
    assert 2 * judged.killed >= judged.mutants >= 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (answer("SELECT nme FROM pet"), "fails"),
        (answer("DROP TABLE pet"), "fails"),
        (answer("SELECT name FROM pet WHERE age > 99"), "empty"),
        (answer("SELECT name FROM pet"), "weak"),
        (answer("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n"),
         "fails"),
        ("SELECT 1", "query"),
        (answer(GOOD, ""), "question"),
    ],
)  # fmt: skip
def test_what_does_not_run_or_does_not_tell_is_dropped(judge, text, reason):
    (judged,) = judge([text], ["pets.sqlite"])
    assert judged.reason == reason, judged


@pytest.mark.parametrize(
    "query",
    [
        GOOD,
        "SELECT kind, COUNT(*) FROM pet GROUP BY 1 HAVING COUNT(*) > 1 ORDER BY 1 DESC LIMIT 3",
        "SELECT MAX(age) FROM pet INTERSECT SELECT age FROM pet WHERE name LIKE 'B%'",
        "SELECT DISTINCT kind FROM pet WHERE age BETWEEN 1.5 AND 4 OR NOT name = 'x'",
    ],
)
def test_mutants_differ_in_text_and_are_never_the_query(query):
    found = query_mutants(query, most=99)
    assert len(found) >= 4
    assert len(set(found)) == len(found)
    assert query not in found


def test_what_does_not_parse_has_no_mutants():
    assert query_mutants("SELECT FROM WHERE (") == []


def test_a_query_too_deep_to_change_has_no_mutants():
    assert query_mutants("SELECT " + "(" * 5000 + "1" + ")" * 5000) == []
