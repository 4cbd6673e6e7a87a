from dph.tasks.sql.data_sets import schemas_of
from shared_data import shared_data
from zoo import write_spider


def test_schemas_come_from_json_or_not_at_all(tmp_path):
    write_spider(tmp_path)
    assert set(schemas_of(tmp_path / "tables.json")) == {"zoo"}
    assert schemas_of(None) == {}


def test_schemas_come_from_parquet():
    assert len(schemas_of(shared_data("bird") / "dev_schema.parquet")) == 11
