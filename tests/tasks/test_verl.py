import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks.problems import load_problems, save_problems
from dph.tasks.verl import problem_of_row, problems_to_verl, verl_row, verl_to_problems

CHAT = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"})
SQL = Problem(
    problem_id="spider-dev-1",
    prompt="How many lions?",
    answer={"gold_sql": "SELECT 1", "database": "zoo.sqlite"},
)
GSM8K = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": 'Two and two? Answer after "####".'}],
    "ability": "math",
    "reward_model": {"style": "rule", "ground_truth": "4"},
    "extra_info": {"split": "test", "index": 7, "answer": "2 + 2 = 4\n#### 4", "question": "?"},
}
"""As verl's examples/data_preprocess/gsm8k.py lays a row out."""

texts = st.text(min_size=1).filter(str.strip)
names = st.text().filter(lambda name: name not in ("problem_id", "prompt"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
messages = st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": texts})
problems = st.builds(
    Problem,
    problem_id=texts,
    prompt=texts | st.lists(messages, min_size=1, max_size=3).map(tuple),
    answer=st.builds(
        lambda gold, rest: {**rest, **gold},
        st.fixed_dictionaries({"answer": values}) | st.fixed_dictionaries({"gold_sql": texts}),
        st.dictionaries(names, values, max_size=3),
    ),
)


def back(row, **options):
    return problem_of_row(row, **{"place": "f, row 1", "position": 0} | options)


@given(problems)
def test_a_problem_comes_back_the_same_whatever_its_answer_is(problem):
    row = json.loads(json.dumps(verl_row(problem, index=3, data_source="mine")))
    assert back(row) == problem
    assert list(back(row).answer) == list(problem.answer)


def test_a_row_has_verls_columns_and_the_rest_of_the_answer_in_extra_info():
    row = verl_row(SQL, index=3)
    assert list(row) == ["data_source", "prompt", "reward_model", "extra_info"]
    assert row["data_source"] == "dph"
    assert row["prompt"] == [{"role": "user", "content": "How many lions?"}]
    assert row["reward_model"] == {"style": "rule", "ground_truth": "SELECT 1"}
    assert row["extra_info"] == {
        "index": 3,
        "problem_id": "spider-dev-1",
        "ground_truth_field": "gold_sql",
        "text_prompt": True,
        "answer_json": '{"gold_sql": "SELECT 1", "database": "zoo.sqlite"}',
    }


def test_messages_stay_messages_and_fields_called_as_ours_are_fields_like_any_other():
    problem = Problem(problem_id="a", prompt=CHAT, answer={"answer": 4, "n": 5})
    row = verl_row(problem, index=0, data_source="sums", ground_truth="n")
    assert row["prompt"] == list(CHAT)
    assert row["data_source"] == "sums"
    assert row["reward_model"]["ground_truth"] == "5"
    assert back(row) == problem
    for own in ("text", {"data_source": 3}, {"data_source": "x", "reward_model": "y"}):
        problem = Problem(problem_id="a", prompt="?", answer={"answer": "1", "verl_row": own})
        row = verl_row(problem, index=0)
        assert row["data_source"] == "dph"
        assert back(row) == problem


def test_a_row_of_gsm8k_becomes_a_problem_that_keeps_all_the_rest():
    problem = back(GSM8K)
    assert problem.problem_id == "openai/gsm8k/test/7"
    assert problem.prompt == tuple(GSM8K["prompt"])
    assert problem.answer["answer"] == "4"
    assert problem.answer["verl_row"] == {
        "data_source": "openai/gsm8k",
        "ability": "math",
        "reward_model": {"style": "rule"},
        "extra_info": GSM8K["extra_info"],
    }
    assert back(GSM8K, ground_truth="gold_sql").answer["gold_sql"] == "4"


@pytest.mark.parametrize(
    "row",
    [
        GSM8K,
        GSM8K | {"reward_model": {"style": "rule", "ground_truth": {"target": 24, "n": [1, 2]}}},
        GSM8K | {"extra_info": {"problem_id": "x", "index": None}, "images": [], "level": 3},
    ],
)
def test_a_row_of_verls_comes_back_with_every_column_and_two_more_trips_change_nothing(row):
    problem = back(row)
    again = verl_row(problem, index=0)
    assert {name: again[name] for name in row if name != "extra_info"} == {
        name: value for name, value in row.items() if name != "extra_info"
    }
    assert {name: again["extra_info"][name] for name in row["extra_info"]} == row["extra_info"]
    assert back(again) == problem


@pytest.mark.parametrize(
    ("extra_info", "number", "problem_id"),
    [
        ({"split": "train", "index": 7}, False, "openai/gsm8k/train/7"),
        ({"split": None, "index": "a-7"}, False, "openai/gsm8k/a-7"),
        ({"split": "train"}, False, "openai/gsm8k/train/12"),
        ({"split": "train", "index": 7}, True, "openai/gsm8k/train/12"),
        ({"problem_id": "p", "index": 7}, False, "p"),
        ({"problem_id": "p", "index": 7}, True, "openai/gsm8k/12"),
        (None, False, "openai/gsm8k/12"),
    ],
)
def test_ids_come_from_extra_info_and_else_from_the_position(extra_info, number, problem_id):
    row = GSM8K | {"extra_info": extra_info}
    assert back(row, position=12, number=number).problem_id == problem_id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward_model": {"style": "rule", "ground_truth": "x"}}, "ground_truth differs"),
        ({"level": 3}, "level differs from extra_info.answer_json"),
        ({"extra_info": {"level": 3}}, "extra_info.level differs"),
        ({"extra_info": {"answer_json": "{"}}, "answer_json is not JSON"),
        ({"extra_info": {"answer_json": "[" * 100_000}}, "answer_json is not JSON"),
        ({"extra_info": {"answer_json": "[1]"}}, "has no ground truth 'gold_sql'"),
        ({"extra_info": {"ground_truth_field": None}}, "has no ground truth None"),
        ({"extra_info": {"answer_json": '{"gold_sql": "SELECT 1", "prompt": "?"}'}}, "answer_json"),
    ],
)
def test_a_changed_row_is_refused_by_the_name_of_what_changed(change, message):
    row = verl_row(SQL, index=0)
    if "extra_info" in change:
        change = {"extra_info": row["extra_info"] | change["extra_info"]}
    with pytest.raises(DataError, match=message):
        back(row | change)


def test_what_parquet_fills_with_null_or_verl_leaves_out_is_no_change():
    row = back(GSM8K | {"tools": [{"a": 1}], "none": {}})
    row = verl_row(row, index=0)
    row |= {"tools": [{"a": 1, "b": None}], "none": None, "other": None}
    assert back(row).problem_id == "openai/gsm8k/test/7"
    problem = back(GSM8K)
    row = verl_row(problem, index=0)
    del row["ability"], row["reward_model"], row["extra_info"]["split"]
    assert back(row) == problem
    row = verl_row(SQL, index=0)
    new = [{"role": "user", "content": "How many tigers?"}]
    assert back(row | {"prompt": new}).prompt == "How many tigers?"
    assert back(row | {"prompt": list(CHAT)}).prompt == CHAT


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "a row is a JSON object"),
        (GSM8K | {"data_source": None}, "data_source must be text, got None"),
        (GSM8K | {"reward_model": None}, "there is no reward_model.ground_truth"),
        (GSM8K | {"reward_model": {"style": "model"}}, "there is no reward_model.ground_truth"),
        (GSM8K | {"reward_model": "rule"}, "reward_model must be a table of fields, got 'rule'"),
        (GSM8K | {"extra_info": 3}, "extra_info must be a table of fields, got 3"),
        (GSM8K | {"prompt": []}, "prompt must be"),
    ],
)
def test_a_malformed_row_is_refused_with_its_place(row, message):
    with pytest.raises(DataError, match=rf"f, row 1: .*{message}"):
        back(row)


@pytest.mark.parametrize(
    ("answer", "field", "message"),
    [
        ({}, None, "no field 'answer' for verl's ground truth; its fields are none"),
        ({"gold": "1"}, None, "its fields are gold"),
        ({"answer": "1"}, "gold", "no field 'gold'"),
        ({"answer": "1", "x": {1, 2}}, None, "is not JSON"),
    ],
)
def test_a_problem_without_a_ground_truth_names_its_fields(answer, field, message):
    with pytest.raises(DataError, match=message):
        verl_row(Problem(problem_id="a", prompt="?", answer=answer), index=0, ground_truth=field)


SAVED = [
    Problem(problem_id="a", prompt="1 + 1?", answer={"answer": "2", "unit": None}),
    Problem(
        problem_id="b",
        prompt=({"role": "user", "content": "2 + 2?"},),
        answer={"answer": 4, "tags": ["é", {"x": 1.5}]},
    ),
    Problem(problem_id="c", prompt="lions?", answer={"gold_sql": "SELECT 1", "database": "d"}),
]
ROWS = [
    GSM8K
    | {"prompt": [{"role": "user", "content": f"{i} + {i}?"}]}
    | {"reward_model": {"style": "rule", "ground_truth": str(2 * i)}}
    | {"extra_info": {"split": "train", "index": i, "answer": "####", "question": f"{i}?"}}
    for i in range(3)
]


@pytest.fixture
def jsonl(tmp_path):
    save_problems(tmp_path / "p.jsonl", SAVED)
    return tmp_path / "p.jsonl"


@pytest.fixture
def gsm8k(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    return tmp_path / "train.parquet"


def test_problems_come_back_from_a_parquet_file_of_verls(jsonl, tmp_path):
    seen = []
    assert problems_to_verl(jsonl, tmp_path / "v" / "v.parquet", on_progress=seen.append) == 3
    assert verl_to_problems(tmp_path / "v" / "v.parquet", tmp_path / "again.jsonl") == 3
    assert load_problems(tmp_path / "again.jsonl") == SAVED
    assert (tmp_path / "again.jsonl").read_bytes() == jsonl.read_bytes()
    assert seen == [3]


def test_rows_of_verls_come_back_with_all_their_columns(gsm8k, tmp_path):
    verl_to_problems(gsm8k, tmp_path / "p.jsonl")
    problems_to_verl(tmp_path / "p.jsonl", tmp_path / "again.parquet")
    rows = pq.read_table(tmp_path / "again.parquet").to_pylist()
    for row, original in zip(rows, ROWS, strict=True):
        row["extra_info"] = {name: row["extra_info"][name] for name in original["extra_info"]}
        assert row == original


def test_the_columns_of_later_rows_are_there_too(tmp_path):
    problems = [Problem(problem_id=str(i), prompt="?", answer={"answer": "1"}) for i in range(1500)]
    late = json.loads(json.dumps(ROWS[0])) | {"level": 3}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [ROWS[1], late]))
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


def test_an_index_that_is_used_twice_and_a_column_that_json_cannot_hold_are_refused(tmp_path):
    pq.write_table(pa.Table.from_pylist([ROWS[0], ROWS[0]]), tmp_path / "v.parquet")
    with pytest.raises(DataError, match=r"row 2: problem_id 'openai/gsm8k/train/0' was used"):
        verl_to_problems(tmp_path / "v.parquet", tmp_path / "p.jsonl")
    assert not (tmp_path / "p.jsonl").exists()
    verl_to_problems(tmp_path / "v.parquet", tmp_path / "p.jsonl", number=True)
    assert [p.problem_id for p in load_problems(tmp_path / "p.jsonl")] == [
        "openai/gsm8k/train/0",
        "openai/gsm8k/train/1",
    ]
    pq.write_table(pa.Table.from_pylist([ROWS[0] | {"images": [b"png"]}]), tmp_path / "v.parquet")
    with pytest.raises(DataError, match="row 1, images: JSON has no bytes"):
        verl_to_problems(tmp_path / "v.parquet", tmp_path / "p.jsonl")


@pytest.mark.parametrize("value", [2**70, {}])
def test_values_without_a_common_type_leave_no_file(tmp_path, value):
    rows = [ROWS[0] | {"level": 1}, ROWS[1] | {"level": value}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    verl_to_problems(tmp_path / "rows.jsonl", tmp_path / "p.jsonl")
    with pytest.raises(DataError, match=r"the rows of .*p\.jsonl do not fit into one table"):
        problems_to_verl(tmp_path / "p.jsonl", tmp_path / "v.parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"rows.jsonl", "p.jsonl"}


def test_what_is_empty_or_cannot_be_written_is_refused(jsonl, gsm8k, tmp_path):
    with pytest.raises(DataError, match=r"writes \.parquet, got"):
        problems_to_verl(jsonl, tmp_path / "v.jsonl")
    with pytest.raises(DataError, match=r"writes \.jsonl, got"):
        verl_to_problems(gsm8k, tmp_path / "p.parquet")
    with pytest.raises(DataError, match="is the input"):
        problems_to_verl(gsm8k, gsm8k)
    with pytest.raises(SettingsError, match="cannot become the field 'prompt'"):
        verl_to_problems(gsm8k, tmp_path / "p.jsonl", ground_truth="prompt")
    (tmp_path / "p.jsonl").write_text("\n")
    with pytest.raises(DataError, match="holds no problems"):
        problems_to_verl(tmp_path / "p.jsonl", tmp_path / "v.parquet")
    with pytest.raises(DataError, match="holds no problems"):
        verl_to_problems(tmp_path / "p.jsonl", tmp_path / "q.jsonl")


@pytest.mark.slow
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
