import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.results.view import snapshot as row_file
from dph.results.view.snapshot import OpenRowFile


@pytest.fixture
def path(tmp_path):
    table = pa.table({"at": range(1000)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("batch", [7, 100, 8192])
def test_rows_are_those_of_the_file_wherever_groups_and_batches_end(path, monkeypatch, batch):
    monkeypatch.setattr(row_file, "_BATCH", batch)
    file = OpenRowFile(path)
    for first, count in ((0, 1), (295, 10), (999, 1), (0, 1000), (42, 0), (600, 300), (5, 5)):
        found = [row["at"] for row in file.rows(first, count)]
        assert found == list(range(first, first + count))


def test_a_row_that_is_not_there_is_named(path):
    with pytest.raises(DataError, match="has no row 1000"):
        OpenRowFile(path).rows(990, 11)


def test_a_file_that_is_replaced_is_still_what_was_opened(path):
    file = OpenRowFile(path)
    other = path.with_name("other.parquet")
    pq.write_table(pa.table({"at": [-1] * 1000}), other)
    other.rename(path)
    assert [row["at"] for row in file.rows(700, 2)] == [700, 701]


def test_what_is_no_parquet_is_refused(tmp_path):
    (tmp_path / "rows.parquet").write_text("not parquet")
    with pytest.raises(DataError, match=r"cannot read .*rows\.parquet"):
        OpenRowFile(tmp_path / "rows.parquet")
