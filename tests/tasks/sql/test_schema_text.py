import json

from dph.tasks.sql.schema import Column, Schema, SchemaTable, read_tables, schema_text
from zoo import SCHEMA_TEXT, TABLES

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


def test_at_most_six_distinct_examples_are_shown():
    text = text_of(Column(name="c", kind="text"), examples=["a", "b", "a", *"cdefg"])
    assert "example: ['a', 'b', 'c', 'd', 'e', 'f']" in text


def test_a_comment_that_only_repeats_the_name_is_left_out():
    for comment in ("song name", "Song Name", "song_name", "", " "):
        assert "--" not in text_of(Column(name="Song_Name", kind="text", comment=comment))
    assert "-- title" in text_of(Column(name="Song_Name", kind="text", comment="title"))


def test_without_keys_and_notes_no_comma_is_left_over():
    assert text_of(Column(name="c", kind="text")) == "CREATE TABLE t (\n    c text\n);"


def test_values_of_the_schema_itself_are_shown_after_the_others():
    text = text_of(Column(name="c", kind="text", values=("x",)), examples=["a"])
    assert "example: ['a', 'x']" in text


def test_a_table_without_columns_is_left_out():
    assert schema_text(Schema(db_id="d", tables=(SchemaTable(name="t", columns=()),)), {}) == ""
