import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError, SettingsError
from dph.tasks.sql.data_sets import load_bird, read_schema_rows
from shared_data import shared_data
from zoo import write_bird


def test_the_official_layout(tmp_path):
    source = load_bird(write_bird(tmp_path), "dev")
    first = source.questions[0]
    assert first.question_id == "bird-dev-10"
    assert first.gold_sql == "SELECT count(*) FROM animal WHERE kind = 'lion'"
    assert (first.evidence, first.difficulty) == ("lions are kind = 'lion'", "simple")
    assert source.databases == tmp_path / "dev_databases"
    assert source.tables == tmp_path / "dev_tables.json"


def test_mini_dev_lies_beside_it(tmp_path):
    source = load_bird(write_bird(tmp_path), "mini-dev")
    assert [question.question_id for question in source.questions] == ["bird-mini-dev-10"]


def test_the_parquet_layout():
    source = load_bird(shared_data("bird"), "dev")
    assert len(source.questions) == 1534
    assert source.databases is None
    assert len(load_bird(shared_data("bird"), "mini-dev").questions) == 500
    schemas = read_schema_rows(source.tables)
    assert {question.db_id for question in source.questions} == set(schemas)
    assert len(schemas) == 11


def test_there_is_no_other_split(tmp_path):
    with pytest.raises(SettingsError, match="mini-dev, got 'test'"):
        load_bird(tmp_path, "test")


ROWS = [
    {
        "db_id": "d",
        "table": "t",
        "position": 1,
        "column": "a",
        "type": "TEXT",
        "primary_key": False,
        "foreign_keys": '[{"target_table": "s", "target_column": null}]',
        "description": None,
        "value_samples": '["x", "y", "z"]',
    },
    {
        "db_id": "d",
        "table": "t",
        "position": 0,
        "column": "id",
        "type": "INTEGER",
        "primary_key": True,
        "foreign_keys": None,
        "description": "number",
        "value_samples": None,
    },
    {"db_id": "d", "table": "sqlite_sequence"},
]


def test_a_schema_by_columns_has_keys_and_two_values(tmp_path):
    path = tmp_path / "dev_schema.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    (table,) = read_schema_rows(path)["d"].tables
    assert [column.name for column in table.columns] == ["id", "a"]
    assert table.columns[1].values == ("x", "y")
    assert table.primary_key == ("id",)
    assert table.foreign_keys[0].target_column == "a"


def test_a_table_of_something_else_is_refused(tmp_path):
    path = tmp_path / "dev_schema.parquet"
    pq.write_table(pa.table({"db_id": ["d"]}), path)
    with pytest.raises(DataError, match="not a table of columns"):
        read_schema_rows(path)
