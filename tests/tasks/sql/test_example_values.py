import sqlite3
from contextlib import closing

import pytest

from dph.errors import DataError
from dph.tasks.sql.prompt import ExampleValues, overlap_share
from zoo import write_database


@pytest.fixture
def zoo(tmp_path):
    return ExampleValues(write_database(tmp_path))


def test_the_first_two_values_are_distinct_and_neither_null_nor_empty(zoo):
    values = zoo.of("?")
    assert values["animal", "kind"] == ["lion", "tiger"]
    assert values["animal", "year"] == [2001, 2003]


def test_what_the_question_names_comes_first(zoo):
    assert zoo.of("Where are the Tigers?")["animal", "kind"][:1] == ["tiger"]
    assert zoo.of("Does Cy O'Neil keep a grey wolf?")["keeper", "name"] == [
        "Cy O'Neil",
        "Ann",
        "Bob",
    ]


def test_a_text_that_stands_there_only_in_part_is_not_shown(zoo):
    # "grey wolf" has 9 characters, " wolf" 5: 5/9 is below 0.85.
    assert zoo.of("Is there a wolf?")["animal", "kind"] == ["lion", "tiger"]


def test_numbers_written_as_text_are_not_searched(zoo):
    assert "42" not in zoo.of("What about 42?")["animal", "kind"]


def test_long_texts_are_cut_and_not_searched(tmp_path):
    path = tmp_path / "long.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (c)")
        connection.execute("INSERT INTO t VALUES (?), (?)", ("word " * 20, b"\x00\xff"))
        connection.commit()
    values = ExampleValues(path).of("word " * 20)
    assert values["t", "c"] == ["word " * 8, b"\x00\xff"]


def test_the_overlap_is_the_longest_part_in_the_question():
    assert overlap_share("abcd", "xxBCDxx") == 0.75
    assert overlap_share("abc", "xyz") == 0.0


def test_a_file_that_is_no_database_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no database"):
        ExampleValues(tmp_path / "gone.sqlite")
    (tmp_path / "text.sqlite").write_text("no database at all, but long enough to be read as one")
    with pytest.raises(DataError, match="cannot read the database"):
        ExampleValues(tmp_path / "text.sqlite")
