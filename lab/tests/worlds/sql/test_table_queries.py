import sqlite3

import pytest

from dph_corpus.settings import SQL
from dph_corpus.synth.seeds import database_seeds, prompt_of
from lab.worlds.sql.table_queries import write

SCHEMA = """
CREATE TABLE ship ("key" INTEGER PRIMARY KEY, guns INTEGER, "home port" TEXT);
CREATE TABLE battle ("key" INTEGER REFERENCES ship ("key"), hits INTEGER, winner TEXT);
INSERT INTO ship VALUES (1, 10, 'Rome'), (2, 20, 'Lima'), (3, 30, 'Rome');
INSERT INTO battle VALUES (1, 5, 'Peru'), (2, 7, 'Chile');
"""


@pytest.fixture
def databases(tmp_path):
    (tmp_path / "navy").mkdir()
    connection = sqlite3.connect(tmp_path / "navy" / "navy.sqlite")
    connection.executescript(SCHEMA)
    connection.close()
    return tmp_path


def test_every_query_runs_and_none_asks_about_a_key(databases):
    (seed,) = database_seeds(databases)
    answers = write([prompt_of(SQL, seed)] * 200, range(200))
    connection = sqlite3.connect(databases / "navy" / "navy.sqlite")
    for answer in answers:
        question, _, query = answer.partition("\n\n```sql\n")
        assert question.startswith("Question: "), answer
        assert "key" not in question
        connection.execute(query.removesuffix("\n```"))
    connection.close()
    assert {"JOIN", "GROUP", "LIMIT", "AVG(guns)"} <= {
        word for answer in answers for word in answer.split()
    }
    assert answers == write([prompt_of(SQL, seed)] * 200, range(200))


def test_without_a_table_that_has_numbers_nothing_is_asked():
    assert write(["CREATE TABLE t (\n    a TEXT, -- example: ['x']\n);", "no schema"], [0, 1]) == [
        "",
        "",
    ]
