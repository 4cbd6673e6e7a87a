import sqlite3
from collections import Counter
from contextlib import closing
from random import Random

from dph.tasks.sql.schema import read_schema
from lab.benchmarks.natural_world.changed_rows import KEPT, changed_databases, changed_rows

ROWS = [(i, f"name {i}", i % 3) for i in range(20)]


def test_all_columns_keep_their_values_and_fixed_ones_stay_together():
    changed = changed_rows(ROWS, {0, 2}, 1.0, Random(0))
    assert changed != ROWS
    assert Counter((i, k) for i, _, k in changed) == Counter((i, k) for i, _, k in ROWS)
    assert sorted(name for _, name, _ in changed) == sorted(name for _, name, _ in ROWS)


def test_a_share_of_the_rows_is_kept():
    assert len(changed_rows(ROWS, {0}, 0.7, Random(0))) == 14


def test_no_rows_stay_no_rows():
    assert changed_rows([], {0}, 0.7, Random(0)) == []


def test_changed_databases_have_the_tables_and_are_the_same_for_the_same_seed(tmp_path):
    original = tmp_path / "world.sqlite"
    with closing(sqlite3.connect(original)) as connection:
        connection.execute("CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, size INTEGER)")
        connection.executemany("INSERT INTO city VALUES (?, ?, ?)", ROWS)
        connection.commit()
    schema = read_schema(original)
    first, again = (
        [rows_of(path) for path in changed_databases(original, schema, tmp_path / d, seed=3)]
        for d in ("first", "again")
    )
    assert first == again
    assert [len(rows) for rows in first] == [round(kept * len(ROWS)) for kept in KEPT]
    assert all({key for key, *_ in rows} <= set(range(20)) for rows in first)


def rows_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM city").fetchall()
