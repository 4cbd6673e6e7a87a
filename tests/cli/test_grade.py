import json

import pytest

from dph.cli import main

GRADER = """
def grade(response, problem):
    if response == "boom":
        raise SystemExit(3)
    return problem.answer["weight"] if response == problem.answer["word"] else False
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A directory with a grader and answers, which is the current one."""
    (tmp_path / "mine.py").write_text(GRADER)
    rows = [
        {"response": "b", "word": "b", "weight": 0.5},
        {"response": "a", "word": "b", "weight": 0.5, "problem_id": 7, "prompt": "?"},
        {"response": None, "word": "b", "weight": 0.5},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def grade(*more, source="in.jsonl"):
    return main(["grade", "--input", source, "--out", "out.jsonl", "--workers", "1", *more])


def rows(path):
    return [json.loads(line) for line in (path / "out.jsonl").read_text().splitlines()]


def test_a_verifier_of_ones_own_grades_a_file_of_answers(own, capsys):
    assert grade("--verifier", "mine:grade") == 0
    found = [(row["outcome"], row["reward"]) for row in rows(own)]
    assert found == [("WRONG", 0.5), ("WRONG", 0.0), ("NO_ANSWER", 0.0)]
    assert rows(own)[1]["problem_id"] == 7
    assert all(row["seconds"] >= 0 for row in rows(own))
    assert "3 rows, mean reward 0.1667" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "answers"), [("number", ["so 5"]), ("exact", ["5"])])
def test_the_built_in_verifiers_work_by_name(own, name, answers):
    lines = ["response,answer", *(f"{answer},5" for answer in answers), "6,5"]
    (own / "in.csv").write_text("\n".join(lines) + "\n")
    assert grade("--verifier", name, source="in.csv") == 0
    assert [row["outcome"] for row in rows(own)] == ["CORRECT", "WRONG"]


def test_a_missing_gold_is_the_golds_fault(own):
    (own / "in.jsonl").write_text('{"response": "5", "answer": null}\n{"response": "5"}\n')
    assert grade("--verifier", "exact") == 0
    assert [row["outcome"] for row in rows(own)] == ["BAD_GOLD", "BAD_GOLD"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "in.jsonl", "--out", "o.jsonl"], "dph grade needs --verifier"),
        (["--verifier", "mine:grade", "--out", "o.jsonl"], "dph grade needs --input"),
        (["--verifier", "mine:grade", "--input", "in.jsonl"], "dph grade needs --out"),
        (["--verifier", "mine:grade", "math", "--input", "x"], "belong after the command"),
        (["--input", "in.jsonl", "--out", "o.jsonl", "--verifier", "sql"], "dph grade sql"),
        (["--input", "in.jsonl", "--out", "o.jsonl", "--verifier", "mine:no"], "has no 'no'"),
        (["--input", "in.jsonl", "--out", "o.jsonl", "--verifier", "number"], "no column 'answer'"),
        (["--input", "in.txt", "--out", "o.jsonl", "--verifier", "exact"], "must end in one of"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(own, capsys, words, message):
    assert main(["grade", *words]) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].startswith("dph: error: ")
    assert message in err
    assert not (own / "o.jsonl").exists()


def test_help_shows_the_options_and_the_commands(capsys):
    assert main(["grade", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("--verifier", "--input", "sql", "math"))


def test_a_function_that_crashes_on_every_answer_ends_with_1_and_its_reason(own, capsys):
    (own / "broken.py").write_text("def grade(response, problem):\n    return 'yes'\n")
    assert grade("--verifier", "broken:grade") == 1
    assert "crashed on every answer; the first: it returned 'yes' (str)" in capsys.readouterr().err
