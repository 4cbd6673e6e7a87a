import sqlite3
from collections import Counter
from contextlib import closing
from random import Random

import pytest

from lab.worlds.sql.domains import DOMAINS, FIRST_ROWS, KEY, SECOND_ROWS, draw_database

by_name = pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)


def test_no_two_columns_of_the_world_share_a_business_term():
    terms = Counter(column.term for domain in DOMAINS for column in domain.columns)
    assert terms.most_common(1)[0][1] == 1


def test_no_term_is_the_name_of_a_table_or_a_column():
    names = {table.name for domain in DOMAINS for table in domain.tables} | {KEY}
    names |= {column.name for domain in DOMAINS for column in domain.columns}
    assert not names & {column.term for domain in DOMAINS for column in domain.columns}


@by_name
def test_a_domain_has_three_and_two_numeric_columns_and_a_text_column_in_each_table(domain):
    assert [len(table.numeric) for table in domain.tables] == [3, 2]
    assert all(table.text is table.columns[-1] for table in domain.tables)
    assert all(len(set(table.text.values)) == 8 for table in domain.tables)


@by_name
def test_columns_of_a_domain_are_distinct_so_that_joins_are_unambiguous(domain):
    names = [column.name for column in domain.columns]
    assert len({*names, KEY, domain.first.name, domain.second.name}) == len(names) + 3


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


def test_every_row_of_the_second_table_joins_one_row_of_the_first(database):
    first, second = (table.name for table in database.domain.tables)
    joined = database.oracle(f"SELECT count ( * ) FROM {second} JOIN {first} USING ( {KEY} )")
    assert joined == {(SECOND_ROWS,)}
    assert len(database.rows[0]) == FIRST_ROWS
