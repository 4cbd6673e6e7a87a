import json

import pyarrow.parquet as pq
import pytest

from dph.records import Problem
from dph.tasks.problems import load_problems, save_problems


@pytest.fixture
def problems(tmp_path):
    save_problems(
        tmp_path / "p.jsonl",
        [Problem(problem_id="a", prompt="1 + 1?", answer={"answer": "2", "solution": "two"})],
    )
    return tmp_path / "p.jsonl"


def test_problems_go_to_verl_and_come_back(dph, problems, tmp_path):
    verl, again = tmp_path / "v.parquet", tmp_path / "again.jsonl"
    words = ("convert", "--to", "verl", "--input", problems, "--out", verl)
    code, out, err = dph(*words, "--data-source", "sums", "--ground-truth", "solution")
    assert (code, out) == (0, f"1 rows -> {verl}\n")
    assert "convert: 1/1 rows" in err
    (row,) = pq.read_table(verl).to_pylist()
    assert (row["data_source"], row["reward_model"]["ground_truth"]) == ("sums", "two")
    code, out, _ = dph("convert", "--to", "dph", "--input", verl, "--out", again, "--json")
    assert code == 0
    assert json.loads(out) == {
        "schema": 1,
        "to": "dph",
        "input": str(verl),
        "out": str(again),
        "rows": 1,
    }
    assert load_problems(again) == load_problems(problems)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--to", "dph", "--data-source", "x"), "--data-source applies only to --to verl"),
        (("--to", "verl", "--number-rows"), "--number-rows applies only to --to dph"),
        (
            ("--to", "verl", "--ground-truth", "gold"),
            "its fields are answer, solution (dph convert: ",
        ),
        (("--to", "dph"), "there is no reward_model.ground_truth"),
        (("--to", "trl"), "'trl'"),
        (("--to", "verl", "--input", "none.jsonl"), "none.jsonl"),
        (("--to", "verl", "--input", "none.txt"), "must end in one of .parquet, .jsonl"),
    ],
)
def test_what_cannot_be_converted_is_bad_input(refusal, problems, tmp_path, words, message):
    suffix = "parquet" if "verl" in words else "jsonl"
    assert message in refusal(
        "convert", "--input", problems, "--out", tmp_path / f"q.{suffix}", *words
    )
    assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl"]
