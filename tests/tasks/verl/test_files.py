import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks import load_problems, save_problems
from dph.tasks.verl import problems_to_verl, verl_to_problems

PROBLEMS = [
    Problem(problem_id="a", prompt="1 + 1?", answer={"answer": "2", "unit": None}),
    Problem(
        problem_id="b",
        prompt=({"role": "user", "content": "2 + 2?"},),
        answer={"answer": 4, "tags": ["é", {"x": 1.5}]},
    ),
    Problem(problem_id="c", prompt="lions?", answer={"gold_sql": "SELECT 1", "database": "d"}),
]
GSM8K = [
    {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"{i} + {i}?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(2 * i)},
        "extra_info": {"split": "train", "index": i, "answer": "####", "question": f"{i}?"},
    }
    for i in range(3)
]


@pytest.fixture
def jsonl(tmp_path):
    save_problems(tmp_path / "p.jsonl", PROBLEMS)
    return tmp_path / "p.jsonl"


@pytest.fixture
def gsm8k(tmp_path):
    pq.write_table(pa.Table.from_pylist(GSM8K), tmp_path / "train.parquet")
    return tmp_path / "train.parquet"


def test_problems_come_back_from_a_parquet_file_of_verls(jsonl, tmp_path):
    seen = []
    assert problems_to_verl(jsonl, tmp_path / "v" / "v.parquet", on_progress=seen.append) == 3
    assert verl_to_problems(tmp_path / "v" / "v.parquet", tmp_path / "again.jsonl") == 3
    assert load_problems(tmp_path / "again.jsonl") == PROBLEMS
    assert (tmp_path / "again.jsonl").read_bytes() == jsonl.read_bytes()
    assert seen == [3]


def test_rows_of_verls_come_back_with_all_their_columns(gsm8k, tmp_path):
    verl_to_problems(gsm8k, tmp_path / "p.jsonl")
    problems_to_verl(tmp_path / "p.jsonl", tmp_path / "again.parquet")
    rows = pq.read_table(tmp_path / "again.parquet").to_pylist()
    for row, original in zip(rows, GSM8K, strict=True):
        row["extra_info"] = {name: row["extra_info"][name] for name in original["extra_info"]}
        assert row == original


def test_the_columns_of_later_rows_are_there_too(tmp_path):
    problems = [Problem(problem_id=str(i), prompt="?", answer={"answer": "1"}) for i in range(1500)]
    late = json.loads(json.dumps(GSM8K[0])) | {"level": 3}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [GSM8K[1], late]))
    verl_to_problems(path, tmp_path / "p.jsonl")
    save_problems(tmp_path / "both.jsonl", problems + load_problems(tmp_path / "p.jsonl"))
    problems_to_verl(tmp_path / "both.jsonl", tmp_path / "v.parquet", data_source="mixed")
    table = pq.read_table(tmp_path / "v.parquet")
    assert table["level"].to_pylist() == [None] * 1501 + [3]
    assert set(table["data_source"].to_pylist()) == {"mixed"}
    assert [row["index"] for row in table["extra_info"].to_pylist()][:1500] == list(range(1500))
    verl_to_problems(tmp_path / "v.parquet", tmp_path / "again.jsonl")
    assert load_problems(tmp_path / "again.jsonl") == load_problems(tmp_path / "both.jsonl")


def test_half_a_surrogate_pair_survives_in_an_answer_and_is_refused_in_a_prompt(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(r'{"problem_id": "a", "prompt": "?", "answer": "1", "x": "\ud800"}' + "\n")
    problems_to_verl(path, tmp_path / "v.parquet")
    verl_to_problems(tmp_path / "v.parquet", tmp_path / "again.jsonl")
    assert load_problems(tmp_path / "again.jsonl") == load_problems(path)
    path.write_text(r'{"problem_id": "a", "prompt": "\ud800", "answer": "1"}' + "\n")
    with pytest.raises(DataError, match="do not fit into one table"):
        problems_to_verl(path, tmp_path / "v.parquet")


def test_an_index_that_is_used_twice_is_refused_unless_rows_are_numbered(tmp_path):
    pq.write_table(pa.Table.from_pylist([GSM8K[0], GSM8K[0]]), tmp_path / "v.parquet")
    with pytest.raises(DataError, match=r"row 2: problem_id 'openai/gsm8k/train/0' was used"):
        verl_to_problems(tmp_path / "v.parquet", tmp_path / "p.jsonl")
    assert not (tmp_path / "p.jsonl").exists()
    verl_to_problems(tmp_path / "v.parquet", tmp_path / "p.jsonl", number=True)
    assert [p.problem_id for p in load_problems(tmp_path / "p.jsonl")] == [
        "openai/gsm8k/train/0",
        "openai/gsm8k/train/1",
    ]


def test_a_column_that_json_cannot_hold_is_refused_by_name(tmp_path):
    pq.write_table(pa.Table.from_pylist([GSM8K[0] | {"images": [b"png"]}]), tmp_path / "v.parquet")
    with pytest.raises(DataError, match="row 1, images: JSON has no bytes"):
        verl_to_problems(tmp_path / "v.parquet", tmp_path / "p.jsonl")


@pytest.mark.parametrize("value", [2**70, {}])
def test_values_without_a_common_type_leave_no_file(tmp_path, value):
    rows = [GSM8K[0] | {"level": 1}, GSM8K[1] | {"level": value}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    verl_to_problems(tmp_path / "rows.jsonl", tmp_path / "p.jsonl")
    with pytest.raises(DataError, match=r"the rows of .*p\.jsonl do not fit into one table"):
        problems_to_verl(tmp_path / "p.jsonl", tmp_path / "v.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"rows.jsonl", "p.jsonl"}


def test_places_that_cannot_be_written_are_refused(jsonl, gsm8k, tmp_path):
    with pytest.raises(DataError, match=r"writes \.parquet, got"):
        problems_to_verl(jsonl, tmp_path / "v.jsonl")
    with pytest.raises(DataError, match=r"writes \.jsonl, got"):
        verl_to_problems(gsm8k, tmp_path / "p.parquet")
    with pytest.raises(DataError, match="is the input"):
        problems_to_verl(gsm8k, gsm8k)
    with pytest.raises(SettingsError, match="cannot become the field 'prompt'"):
        verl_to_problems(gsm8k, tmp_path / "p.jsonl", ground_truth="prompt")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "p.jsonl").write_text("\n")
    with pytest.raises(DataError, match="holds no problems"):
        problems_to_verl(tmp_path / "p.jsonl", tmp_path / "v.parquet")
    with pytest.raises(DataError, match="holds no problems"):
        verl_to_problems(tmp_path / "p.jsonl", tmp_path / "q.jsonl")


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    """64 rows of 8 kB, a few times over, and the ids: far from the 16 MB of the file."""
    monkeypatch.setattr("dph.tasks.verl._ROWS", 64)
    monkeypatch.setattr("dph._base.files.rows._BATCH_ROWS", 64)
    path = tmp_path / "p.jsonl"
    with path.open("w") as file:
        for i in range(2000):
            row = {"problem_id": str(i), "prompt": f"{i} " + "x" * 8000, "answer": "1"}
            file.write(json.dumps(row) + "\n")
    tracemalloc.start()
    problems_to_verl(path, tmp_path / "v.parquet")
    verl_to_problems(tmp_path / "v.parquet", tmp_path / "again.jsonl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * path.stat().st_size
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()
