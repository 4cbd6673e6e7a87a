import json

import pytest

from dph.tasks.gym import gym_tasks
from dph.tasks.problems import load_problems

pytest.importorskip("reasoning_gym")


def test_the_command_writes_problems_and_says_how_many(dph, tmp_path):
    out = tmp_path / "p.jsonl"
    words = ("tasks", "reasoning-gym", "lcm", "--count", 3, "--config", "max_value=9", "--out", out)
    code, said, _ = dph(*words)
    assert code == 0
    assert f"{out}: 3 problems of lcm" in said
    assert [p.answer["gym_config"] for p in load_problems(out)] == [{"max_value": 9}] * 3
    code, said, _ = dph(*words, "--json")
    assert json.loads(said) == {"schema": 1, "out": str(out), "task": "lcm", "problems": 3}


def test_a_task_without_stored_answers_is_graded_by_its_scorer(dph, tmp_path):
    out = tmp_path / "p.jsonl"
    assert dph("tasks", "reasoning-gym", "graph_color", "--count", 2, "--out", out)[0] == 0
    rows = [{**json.loads(line), "response": "no"} for line in out.read_text().splitlines()]
    assert [row["answer"] for row in rows] == [None, None]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--input", tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl", "--json")
    code, said, _ = dph("grade", "--verifier", "reasoning_gym", *words)
    assert (code, json.loads(said)["outcomes"]["WRONG"]) == (0, 2)


def test_the_command_names_all_tasks_and_asks_for_what_is_missing(dph):
    code, said, _ = dph("tasks", "reasoning-gym", "--list")
    assert (code, said.split()) == (0, list(gym_tasks()))
    code, _, error = dph("tasks", "reasoning-gym", "lcm")
    assert code == 2
    assert "--out FILE" in error
