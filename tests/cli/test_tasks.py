"""``dph tasks`` and ``dph convert``: published data sets as problems, and back."""

import json
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.records import Problem
from dph.tasks.problems import load_problems, save_problems
from dph.tasks.verifiers.gym.verifier import gym_tasks
from zoo import write_bird, write_spider

PROGRAM = {
    "task_id": "Own/0",
    "prompt": 'def double(x):\n    """Twice x."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}


def test_spider_becomes_problems_and_says_what_was_dropped(dph, tmp_path):
    (tmp_path / "data").mkdir()
    write_spider(tmp_path / "data")
    code, out, _ = dph(
        "tasks", "spider", "--data", tmp_path / "data", "--out", tmp_path / "p.jsonl"
    )
    assert code == 0
    assert "1 problems of 4 questions" in out
    assert "dropped 1: gold no rows (spider-dev-1)" in out
    assert "dropped 1: gold only NULL or 0 (spider-dev-2)" in out
    assert "dropped 1: gold does not run (spider-dev-3)" in out
    (problem,) = load_problems(tmp_path / "p.jsonl")
    assert problem.answer["database"] == "zoo/zoo.sqlite"
    assert "How many lions?" in problem.prompt


def test_bird_as_json_names_every_dropped_question(document, tmp_path):
    write_bird(tmp_path)
    out = tmp_path / "new" / "p.jsonl"
    content = document("tasks", "bird", "--data", tmp_path, "--out", out)
    assert (content["questions"], content["problems"], content["checked"]) == (4, 1, True)
    assert [each["why"] for each in content["dropped_problems"]] == [
        "no rows",
        "only NULL or 0",
        "does not run",
    ]
    assert "nothing" in content["dropped_problems"][2]["reason"]
    (problem,) = load_problems(tmp_path / "new" / "p.jsonl")
    assert "lions are kind = 'lion'\nHow many lions?" in problem.prompt


def test_all_may_be_kept_and_databases_and_schemas_lie_elsewhere(dph, tmp_path):
    write_spider(tmp_path)
    words = ("tasks", "spider", "--data", tmp_path, "--out", tmp_path / "p.jsonl")
    code, out, _ = dph(*words, "--keep-all")
    assert code == 0
    assert "4 problems of 4 questions" in out
    assert "no gold query was run" in out
    (tmp_path / "database").rename(tmp_path / "db")
    (tmp_path / "tables.json").rename(tmp_path / "t.json")
    words += ("--databases", tmp_path / "db", "--tables", tmp_path / "t.json", "--split", "train")
    code, out, _ = dph(*words)
    assert code == 0
    assert "1 problems of 4 questions" in out


def test_math_from_a_file_has_ids_from_its_name(dph, tmp_path):
    rows = [{"problem": "p", "answer": "1"}, {"problem": "q", "answer": "x"}, {"problem": "r"}]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ("tasks", "math", "--data", tmp_path / "own.jsonl", "--out", tmp_path / "p.jsonl")
    code, out, _ = dph(*words, "--integers")
    assert code == 0
    assert "1 problems of 3 rows" in out
    assert "dropped 1: the answer is not a whole number" in out
    assert load_problems(tmp_path / "p.jsonl")[0].problem_id == "own-0"


def test_a_known_set_brings_its_numbers_of_samples(dph, document, tmp_path):
    pq.write_table(pa.table({"problem": ["p"], "answer": ["1"]}), tmp_path / "aime24.parquet")
    out = tmp_path / "p.jsonl"
    words = ("tasks", "math", "--data", tmp_path, "--name", "aime24", "--out", out)
    assert "evaluate.samples = 64, evaluate.k = [64]" in dph(*words)[1]
    content = document(*words)
    assert (content["problems"], content["samples"], content["k"]) == (1, 64, [64])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["spider", "--data", ".", "--out", "p.jsonl"], "looked for dev.json, dev.parquet"),
        (["spider", "--data", "gone", "--out", "p.jsonl"], "there is no directory gone"),
        (["spider", "--data", "zoo", "--out", "p.json"], "written to .jsonl, got p.json"),
        (["spider", "--data", "zoo", "--split", "test", "--out", "p.jsonl"], "got 'test'"),
        (["spider", "--data", "zoo", "--databases", "gone", "--out", "p.jsonl"], "databases gone"),
        (["spider", "--data", "zoo", "--tables", "gone", "--out", "p.jsonl"], "cannot read gone"),
        (["bird", "--data", "zoo", "--split", "train", "--out", "p.jsonl"], "train.json"),
        (["math", "--data", "zoo", "--out", "p.jsonl"], "choose a set of zoo: --name aime24"),
        (["math", "--data", "zoo", "--name", "x", "--out", "p.jsonl"], "got 'x'"),
        (["math", "--data", "own.jsonl", "--out", "own.jsonl"], "own.jsonl is the input"),
        (["humaneval", "--data", "wrong.jsonl", "--out", "p.jsonl"], "its own solution is WRONG"),
        *(
            ([name, "--data", "h.jsonl", "--out", "p.jsonl"], "h.jsonl")
            for name in ("humaneval", "mbpp", "livecodebench")
        ),
        (["math", "--data", "gone.jsonl", "--out", "p.jsonl"], "there is no file gone.jsonl"),
    ],
)
def test_bad_input_is_one_line(dph, tmp_path, monkeypatch, words, message):
    (tmp_path / "zoo").mkdir()
    write_spider(tmp_path / "zoo")
    (tmp_path / "own.jsonl").write_text('{"problem": "p", "answer": "1", "solution": "?"}\n')
    (tmp_path / "h.jsonl").write_text('{"task_id": 1}\n')
    wrong = {**PROGRAM, "canonical_solution": "    return x\n"}
    (tmp_path / "wrong.jsonl").write_text(json.dumps(wrong) + "\n")
    monkeypatch.chdir(tmp_path)
    code, out, err = dph("tasks", *words)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("dph: error: ")
    assert message in err
    assert not (tmp_path / "p.jsonl").exists()
    assert "solution" in (tmp_path / "own.jsonl").read_text()


def test_programs_become_problems_that_their_own_solutions_solve(dph, document, tmp_path):
    right = PROGRAM
    wrong = right | {"task_id": "Own/1", "canonical_solution": "    return x\n"}
    data = tmp_path / "h.jsonl"
    data.write_text(json.dumps(right) + "\n" + json.dumps(wrong) + "\n")
    words = ("tasks", "humaneval", "--data", data, "--out", tmp_path / "p.jsonl")
    code, out, _ = dph(*words)
    assert code == 0
    assert "1 problems of 2 rows" in out
    assert "dropped Own/1: its own solution is WRONG: test 1 of 1" in out
    (problem,) = load_problems(tmp_path / "p.jsonl")
    assert problem.answer["entry_point"] == "double"
    kept = document(*words, "--keep-all")
    assert (kept["problems"], kept["checked"]) == (2, False)


needs_gym = pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="needs reasoning-gym")


@needs_gym
def test_the_command_writes_problems_and_says_how_many(dph, tmp_path):
    out = tmp_path / "p.jsonl"
    words = ("tasks", "reasoning-gym", "lcm", "--count", 3, "--config", "max_value=9", "--out", out)
    code, said, _ = dph(*words)
    assert code == 0
    assert f"{out}: 3 problems of lcm" in said
    assert [p.answer["gym_config"] for p in load_problems(out)] == [{"max_value": 9}] * 3
    code, said, _ = dph(*words, "--json")
    assert json.loads(said) == {"schema": 1, "out": str(out), "task": "lcm", "problems": 3}


@needs_gym
def test_the_command_names_all_tasks_and_asks_for_what_is_missing(dph):
    code, said, _ = dph("tasks", "reasoning-gym", "--list")
    assert (code, said.split()) == (0, list(gym_tasks()))
    code, _, error = dph("tasks", "reasoning-gym", "lcm")
    assert code == 2
    assert "--out FILE" in error


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
