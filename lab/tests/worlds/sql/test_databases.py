"""Rows come from the seed alone, and files hold what the oracle answers from."""

import sqlite3
from contextlib import closing
from random import Random

import pytest

from lab.worlds.sql.domains import DOMAINS, FIRST_ROWS, KEY, SECOND_ROWS, draw_database


@pytest.fixture(params=DOMAINS, ids=lambda domain: domain.name)
def database(request):
    return draw_database(request.param, Random(3))


def test_the_file_gives_the_same_answers_as_the_oracle(database, tmp_path):
    path = database.write(tmp_path)
    assert path == tmp_path / database.relative_path
    with closing(sqlite3.connect(path)) as connection:
        for table in database.domain.tables:
            query = f"SELECT * FROM {table.name}"
            assert frozenset(connection.execute(query)) == database.oracle(query)


def test_the_same_seed_gives_the_same_bytes(database, tmp_path):
    again = draw_database(database.domain, Random(3))
    first, second = database.write(tmp_path / "a"), again.write(tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    assert draw_database(database.domain, Random(4)).rows != database.rows


def test_writing_again_replaces_the_file_and_leaves_no_temporary_one(database, tmp_path):
    first = database.write(tmp_path).read_bytes()
    assert database.write(tmp_path).read_bytes() == first
    assert [path.name for path in (tmp_path / database.name).iterdir()] == [
        f"{database.name}.sqlite"
    ]


def test_every_row_of_the_second_table_joins_one_row_of_the_first(database):
    first, second = (table.name for table in database.domain.tables)
    joined = database.oracle(f"SELECT count ( * ) FROM {second} JOIN {first} USING ( {KEY} )")
    assert joined == {(SECOND_ROWS,)}
    assert len(database.rows[0]) == FIRST_ROWS


def test_numbers_of_a_column_are_all_different(database):
    for table, rows in zip(database.domain.tables, database.rows, strict=True):
        for position, _ in enumerate(table.numeric, start=1):
            values = [row[position] for row in rows]
            assert len(set(values)) == len(values)
            assert all(0 <= value <= 65 for value in values)
