"""Every form of a query returns the gold's rows, on databases that are made here."""

import sqlite3
from contextlib import closing
from random import Random

import pytest

pytest.importorskip("sqlglot", reason="needs sqlglot (lab/benchmarks/requirements.txt)")

from lab.benchmarks.natural_world.forms import checked, rewritten

COLUMNS = {
    "singer": ("singer_id", "name", "country", "age"),
    "concert": ("concert_id", "singer_id", "city", "year"),
}
KEYS = {"singer": ("singer_id",), "concert": ("concert_id",)}
CITIES = ("Oslo", "Rome", "Bern")
WANTED = {
    "SELECT T1.name FROM singer AS T1 JOIN concert AS T2 ON T1.singer_id = T2.singer_id "
    "WHERE T2.concert_id = 7": {
        "plain": "select name from singer join concert on singer . singer_id = concert . singer_id"
        " where concert_id = 7",
        "alias": "select t1 . name from singer as t1 join concert as t2 on"
        " t1 . singer_id = t2 . singer_id where t2 . concert_id = 7",
        "nested": "select name from singer where singer_id in"
        " ( select singer_id from concert where concert_id = 7 )",
        "exists": "select name from singer where exists ( select 1 from concert"
        " where concert_id = 7 and singer_id = singer . singer_id )",
    },
    "SELECT T1.city, count(*) FROM concert AS T1 JOIN singer AS T2 ON T1.singer_id = T2.singer_id "
    'WHERE T2.country = "France" GROUP BY T1.city': {
        "nested": "select city , count ( * ) from concert where singer_id in"
        " ( select singer_id from singer where country = 'France' ) group by city",
    },
    "SELECT name FROM singer ORDER BY age DESC LIMIT 1": {
        "nested": "select name from singer where age = ( select max ( age ) from singer )",
    },
    "SELECT name FROM singer WHERE age = (SELECT min(age) FROM singer)": {
        "ordered": "select name from singer order by age asc limit 1",
    },
    "SELECT count(*) FROM singer WHERE age BETWEEN 20 AND 40": {
        "cte": "with c as ( select * from singer where age between 20 and 40 )"
        " select count ( * ) from c",
        "respelt": "select count ( singer_id ) from singer where age >= 20 and age <= 40",
    },
    "SELECT DISTINCT city FROM concert": {"respelt": "select city from concert group by city"},
    'SELECT name FROM singer WHERE country = "France" OR country = "Chile"': {
        "respelt": "select name from singer where country in ( 'France' , 'Chile' )",
    },
    "SELECT singer_id FROM singer WHERE age > 30 INTERSECT SELECT singer_id FROM concert": {
        "nested": "select distinct singer_id from singer where age > 30 and singer_id in"
        " ( select singer_id from concert )",
        "exists": "select distinct singer_id from singer where age > 30 and exists"
        " ( select 1 from concert where singer_id = singer . singer_id )",
    },
    "SELECT singer_id FROM singer EXCEPT SELECT singer_id FROM concert": {
        "nested": "select distinct singer_id from singer where not singer_id in"
        " ( select singer_id from concert )",
    },
    "SELECT city FROM concert WHERE year = 2014 UNION SELECT city FROM concert WHERE year = 2015": {
        "nested": "select distinct city from concert where year = 2014 or year = 2015",
    },
}
"""Queries in Spider's manner, and forms of them written by hand."""


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    """Databases of two tables, no two singers of one age, each with rows of its own."""
    directory = tmp_path_factory.mktemp("databases")
    return [_database(directory / f"{seed}.sqlite", Random(seed)) for seed in range(8)]


def _database(path, rng):
    ages = rng.sample(range(18, 70), 12)
    singers = [(i, f"s{i}", rng.choice(("France", "Chile", "Peru")), ages[i]) for i in range(12)]
    concerts = [
        (i, rng.randrange(12), rng.choice(CITIES), rng.choice((2014, 2015, 2016)))
        for i in range(15)
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE singer (singer_id INTEGER PRIMARY KEY, name, country, age)"
        )
        connection.execute(
            "CREATE TABLE concert (concert_id INTEGER PRIMARY KEY, singer_id, city, year)"
        )
        connection.executemany("INSERT INTO singer VALUES (?, ?, ?, ?)", singers)
        connection.executemany("INSERT INTO concert VALUES (?, ?, ?, ?)", concerts)
        connection.commit()
    return path


@pytest.mark.parametrize("gold", WANTED)
def test_the_forms_of_a_query_are_those_written_by_hand(gold):
    forms = rewritten(gold, COLUMNS, KEYS)
    assert {name: forms.get(name) for name in WANTED[gold]} == WANTED[gold]


@pytest.mark.parametrize("gold", WANTED)
def test_every_form_returns_the_rows_of_the_gold_on_every_database(gold, databases):
    forms = rewritten(gold, COLUMNS, KEYS)
    outcome = checked(gold, forms, databases)
    assert outcome.forms == forms
    assert outcome.refused == ()


def test_a_join_that_repeats_rows_is_no_subquery(databases):
    gold = "SELECT T1.name FROM singer AS T1 JOIN concert AS T2 ON T1.singer_id = T2.singer_id"
    outcome = checked(gold, rewritten(gold, COLUMNS, KEYS), databases)
    assert set(outcome.forms) == {"plain", "alias"}
    assert set(outcome.refused) == {"nested", "exists"}


def test_rows_that_a_join_repeats_are_not_counted_in_a_subquery():
    gold = (
        "SELECT T1.country, count(*) FROM singer AS T1 JOIN concert AS T2 "
        "ON T1.singer_id = T2.singer_id GROUP BY T1.country"
    )
    assert not {"nested", "exists"} & set(rewritten(gold, COLUMNS, KEYS))


def test_a_largest_value_that_two_rows_have_is_refused(tmp_path):
    path = _database(tmp_path / "ties.sqlite", Random(0))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE singer SET age = 50")
        connection.commit()
    gold = "SELECT name FROM singer ORDER BY age DESC LIMIT 1"
    outcome = checked(gold, rewritten(gold, COLUMNS, KEYS), [path, path])
    assert outcome.refused == ("nested",)


def test_a_query_that_returns_nothing_has_no_checked_form(databases):
    gold = "SELECT name FROM singer WHERE age > 100"
    assert checked(gold, rewritten(gold, COLUMNS, KEYS), databases).forms == {}


def test_a_column_of_no_table_has_no_form():
    assert rewritten("SELECT height FROM singer", COLUMNS, KEYS) == {}


def test_names_that_queries_share_stay_with_their_own_query():
    gold = (
        "SELECT T1.name FROM singer AS T1 WHERE T1.singer_id NOT IN "
        "(SELECT T1.singer_id FROM concert AS T1 WHERE T1.year = 2014)"
    )
    forms = rewritten(gold, COLUMNS, KEYS)
    assert forms["plain"] == (
        "select name from singer where not singer_id in"
        " ( select singer_id from concert where year = 2014 )"
    )
    assert forms["alias"] == (
        "select t1 . name from singer as t1 where not t1 . singer_id in"
        " ( select t2 . singer_id from concert as t2 where t2 . year = 2014 )"
    )
