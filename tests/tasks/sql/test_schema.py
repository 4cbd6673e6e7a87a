import json

import pytest

from dph.errors import DataError
from dph.tasks.sql.schema import (
    Column,
    ForeignKey,
    Schema,
    SchemaTable,
    read_schema,
    read_tables,
    schema_text,
)
from zoo import SCHEMA_TEXT, TABLES, write_database


@pytest.fixture
def tables(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([TABLES]))
    return path


def test_tables_json_gives_tables_columns_and_keys(tables):
    keeper, animal = read_tables(tables)["zoo"].tables
    assert keeper.columns == (
        Column(name="id", kind="number", comment="id"),
        Column(name="Name", kind="text", comment="name"),
    )
    assert keeper.primary_key == ("id",)
    assert animal.primary_key == ("id",)
    assert animal.foreign_keys == (
        ForeignKey(column="kpr", target_table="keeper", target_column="id"),
    )


def test_a_database_without_tables_json_describes_itself(tmp_path):
    schema = read_schema(write_database(tmp_path))
    assert schema.db_id == "zoo"
    keeper, animal = schema.tables
    assert [column.kind for column in animal.columns] == ["INTEGER", "TEXT", "INT", "INT"]
    assert (keeper.primary_key, animal.foreign_keys[0].target_table) == (("id",), "keeper")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "holds no list of databases"),
        ('[{"db_id": "x"}]', "entry 0: not a schema"),
        ("[3]", "entry 0: not a schema"),
        ("[", "not valid JSON"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, content, message):
    path = tmp_path / "tables.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_tables(path)


def test_what_is_no_database_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no database"):
        read_schema(tmp_path / "gone.sqlite")
    (tmp_path / "text.sqlite").write_text("no database at all, but long enough to be read as one")
    with pytest.raises(DataError, match="cannot read the database"):
        read_schema(tmp_path / "text.sqlite")


EXAMPLES = {
    ("keeper", "id"): [1, 2],
    ("keeper", "name"): ["Ann", "Bob"],
    ("animal", "id"): [1, 2],
    ("animal", "kind"): ["lion", "tiger"],
    ("animal", "year"): [2001, 2003],
    ("animal", "kpr"): [1, 2],
}


def test_a_schema_reads_as_in_the_paper(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps([TABLES]))
    assert schema_text(read_tables(path)["zoo"], EXAMPLES) == SCHEMA_TEXT


def text_of(*columns, examples=()):
    table = SchemaTable(name="t", columns=columns)
    return schema_text(Schema(db_id="d", tables=(table,)), {("t", "c"): examples})


def test_at_most_six_distinct_examples_are_shown_those_of_the_schema_last():
    text = text_of(Column(name="c", kind="text"), examples=["a", "b", "a", *"cdefg"])
    assert "example: ['a', 'b', 'c', 'd', 'e', 'f']" in text
    text = text_of(Column(name="c", kind="text", values=("x",)), examples=["a"])
    assert "example: ['a', 'x']" in text


def test_what_says_nothing_is_left_out_of_a_schema():
    for comment in ("song name", "Song Name", "song_name", "", " "):
        assert "--" not in text_of(Column(name="Song_Name", kind="text", comment=comment))
    assert "-- title" in text_of(Column(name="Song_Name", kind="text", comment="title"))
    assert text_of(Column(name="c", kind="text")) == "CREATE TABLE t (\n    c text\n);"
    assert schema_text(Schema(db_id="d", tables=(SchemaTable(name="t", columns=()),)), {}) == ""
