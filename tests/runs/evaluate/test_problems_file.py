import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.records import Problem
from dph.runs.evaluate.scores import keep_problems, read_kept_problems

CHAT = ({"role": "user", "content": "how many?"},)
SETS = {
    "dev": [Problem(problem_id="1", prompt="é?", answer={"gold_sql": "SELECT 1", "rows": [[1]]})],
    "other": [Problem(problem_id="1", prompt=CHAT, answer={})],
}


def test_problems_come_back_by_set_and_id(tmp_path):
    path = tmp_path / "problems.parquet"
    assert read_kept_problems(path) == {}
    keep_problems(path, SETS)
    assert read_kept_problems(path) == {
        ("dev", "1"): SETS["dev"][0],
        ("other", "1"): SETS["other"][0],
    }


def test_they_are_written_again_only_when_they_changed(tmp_path):
    path = tmp_path / "problems.parquet"
    keep_problems(path, SETS)
    before = path.stat().st_mtime_ns
    keep_problems(path, SETS)
    assert path.stat().st_mtime_ns == before
    keep_problems(path, {"dev": SETS["dev"]})
    assert list(read_kept_problems(path)) == [("dev", "1")]


def test_a_damaged_file_and_another_version_are_named(tmp_path):
    path = tmp_path / "problems.parquet"
    path.write_bytes(b"x")
    with pytest.raises(DataError, match="is damaged"):
        read_kept_problems(path)
    keep_problems(tmp_path / "good.parquet", SETS)
    pq.write_table(pq.read_table(tmp_path / "good.parquet").replace_schema_metadata({}), path)
    with pytest.raises(DataError, match="has schema none"):
        read_kept_problems(path)
