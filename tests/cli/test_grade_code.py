import json

import pytest

from dph.cli import main
from dph.tasks.verifiers.code.verifier import CodeVerifier

TESTS = ["assert add(2, 3) == 5"]
RIGHT, WRONG = "def add(a, b): return a + b", "def add(a, b): return a - b"


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def grade(source, target, *more):
    words = ["grade", "code", "--input", source, "--out", target, "--workers", 1, *more]
    words += ["--timeout", 20]
    code = main([str(word) for word in words])
    rows = target.read_text().splitlines() if target.exists() else []
    return code, [json.loads(line) for line in rows]


def test_rows_with_their_own_tests_come_out_with_their_verdicts(tmp_path, capsys):
    rows = [
        {"program": RIGHT, "tests": TESTS, "entry_point": "add"},
        {"program": WRONG, "tests": json.dumps(TESTS), "entry_point": "add"},
        {"program": "print(input())", "tests": None, "cases": [{"stdin": "x", "stdout": "x"}]},
        {"program": RIGHT, "tests": None},
        {"program": RIGHT, "tests": 5},
        {"program": None, "tests": TESTS},
        {"program": " ", "tests": TESTS},
        {"program": RIGHT, "tests": "assert add( == 5"},
    ]
    code, graded = grade(write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl")
    assert code == 0
    assert [row["outcome"] for row in graded] == [
        *("CORRECT", "WRONG", "CORRECT", "BAD_GOLD", "BAD_GOLD"),
        *("NO_ANSWER", "NO_ANSWER", "BAD_GOLD"),
    ]
    assert {"reward", "outcome", "reason", "seconds"} < set(graded[0])
    assert "8 rows, mean reward 0.4000 over 5 (3 BAD_GOLD" in capsys.readouterr().out


def test_tests_are_found_in_a_file_of_problems_and_grading_can_be_resumed(tmp_path, capsys):
    problems = write(
        tmp_path / "p.jsonl",
        [{"problem_id": "a", "prompt": "add", "tests": TESTS, "entry_point": "add"}],
    )
    rows = [
        {"problem_id": "a", "response": f"```python\n{RIGHT}\n```"},
        {"problem_id": "a", "response": "no"},
        {"problem_id": "b", "response": RIGHT},
    ]
    source = write(tmp_path / "in.jsonl", rows)
    more = ("--problems", problems, "--memory-mb", 300, "--json")
    code, graded = grade(source, tmp_path / "out.jsonl", *more)
    assert code == 0
    assert [row["outcome"] for row in graded] == ["CORRECT", "NO_ANSWER", "BAD_GOLD"]
    assert graded[2]["reason"] == "there is no problem 'b'"
    assert json.loads(capsys.readouterr().out)["outcomes"]["CORRECT"] == 1
    _, again = grade(source, tmp_path / "out.jsonl", *more, "--resume")
    assert [row["outcome"] for row in again] == [row["outcome"] for row in graded]


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([{"program": RIGHT}], (), "has no column 'tests'"),
        ([{"tests": TESTS}], (), "has no column 'response'"),
        ([{"program": RIGHT, "tests": TESTS}], ("--memory-mb", 1), "at least 64000000 bytes"),
        ([{"program": RIGHT, "tests": TESTS}], ("--problems", "none.jsonl"), "none.jsonl"),
    ],
)
def test_bad_input_is_named_and_writes_nothing(tmp_path, capsys, rows, more, message):
    code, _ = grade(write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl", *more)
    assert code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out.jsonl").exists()


def test_a_problem_that_is_no_task_is_bad_input(tmp_path, capsys):
    problems = write(tmp_path / "p.jsonl", [{"problem_id": "a", "prompt": "add", "answer": "5"}])
    source = write(tmp_path / "in.jsonl", [{"problem_id": "a", "response": RIGHT}])
    code, _ = grade(source, tmp_path / "out.jsonl", "--problems", problems)
    assert code == 2
    assert "'a': the code verifier needs 'tests' or 'cases'" in capsys.readouterr().err


def test_what_the_machine_lacks_is_said_in_one_line(tmp_path, capsys, monkeypatch):
    made = CodeVerifier.__init__
    monkeypatch.setattr(
        CodeVerifier, "__init__", lambda self, **given: made(self, **given, without=("files",))
    )
    rows = [{"program": RIGHT, "tests": TESTS, "entry_point": "add"}]
    code, graded = grade(write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl")
    assert (code, graded[0]["outcome"]) == (0, "CORRECT")
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "not confined" in each]
    assert line.startswith("dph: not confined by files (left out)")


def test_the_other_command_sends_programs_here(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", [{"answer": "5", "response": RIGHT}])
    words = ["grade", "--input", source, "--out", tmp_path / "o.jsonl", "--verifier", "code"]
    assert main([str(word) for word in words]) == 2
    assert "grade them with `dph grade code`" in capsys.readouterr().err
