import sqlite3

import pytest

from dph.records import Problem
from worker_fixtures import user_module  # noqa: F401


@pytest.fixture
def singers(tmp_path):
    """A database of six singers, ages 10 to 60, one without a country, one with odd values."""
    path = tmp_path / "databases" / "singers.sqlite"
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, age INT, country)")
    connection.executemany(
        "INSERT INTO singer VALUES (?, ?, ?, ?)",
        [(i, f"singer {i}", 10 * i, "France" if i % 2 else None) for i in range(1, 7)],
    )
    connection.execute("CREATE TABLE odd (label TEXT, value)")
    connection.executemany(
        "INSERT INTO odd VALUES (?, ?)",
        [("bytes", b"\x00\xff"), ("inf", float("inf")), ("nan", float("nan")), ("null", None)],
    )
    connection.execute("INSERT INTO odd VALUES ('bad text', CAST(x'ff41' AS TEXT))")
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def singer_problem(singers):
    return Problem(
        problem_id="older than 20",
        prompt="Which singers are older than 20?",
        answer={"gold_sql": "SELECT name FROM singer WHERE age > 20", "database": singers.name},
    )
