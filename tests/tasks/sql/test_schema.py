import json

import pytest

from dph.errors import DataError
from dph.tasks.sql.schema import Column, ForeignKey, read_schema, read_tables
from zoo import TABLES, write_database


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
