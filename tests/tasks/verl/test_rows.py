import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import DataError
from dph.records import Problem
from dph.tasks.verl import problem_of_row, verl_row

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


def test_messages_stay_messages_and_a_number_becomes_the_text_of_the_ground_truth():
    problem = Problem(problem_id="a", prompt=CHAT, answer={"answer": 4, "n": 5})
    row = verl_row(problem, index=0, data_source="sums", ground_truth="n")
    assert row["prompt"] == list(CHAT)
    assert row["data_source"] == "sums"
    assert row["reward_model"]["ground_truth"] == "5"
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


def test_the_ground_truth_may_get_another_name():
    assert back(GSM8K, ground_truth="gold_sql").answer["gold_sql"] == "4"


def test_a_problem_whose_own_field_is_called_verl_row_is_a_problem_like_any_other():
    for own in ("text", {"data_source": 3}, {"data_source": "x", "reward_model": "y"}):
        problem = Problem(problem_id="a", prompt="?", answer={"answer": "1", "verl_row": own})
        row = verl_row(problem, index=0)
        assert row["data_source"] == "dph"
        assert back(row) == problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"reward_model": {"style": "rule", "ground_truth": "x"}},
            "ground_truth differs",
        ),
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


def test_a_prompt_may_be_rewritten_on_verls_side():
    row = verl_row(SQL, index=0)
    new = [{"role": "user", "content": "How many tigers?"}]
    assert back(row | {"prompt": new}).prompt == "How many tigers?"
    assert back(row | {"prompt": list(CHAT)}).prompt == CHAT


def test_what_parquet_fills_with_null_is_no_change():
    row = back(GSM8K | {"tools": [{"a": 1}], "none": {}})
    row = verl_row(row, index=0)
    row |= {"tools": [{"a": 1, "b": None}], "none": None, "other": None}
    assert back(row).problem_id == "openai/gsm8k/test/7"


def test_fewer_columns_give_the_same_problem():
    """What verl hands to reward functions is a part of a row."""
    problem = back(GSM8K)
    row = verl_row(problem, index=0)
    del row["ability"], row["reward_model"], row["extra_info"]["split"]
    assert back(row) == problem


def test_not_a_number_is_like_itself():
    problem = back(GSM8K | {"score": float("nan")})
    again = back(verl_row(problem, index=0))
    assert again.problem_id == problem.problem_id


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
