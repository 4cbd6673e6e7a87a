import json
from importlib.util import find_spec

import pytest

from dph.cli import main
from dph.tasks.verifiers.code.verifier import CodeVerifier

needs_math = pytest.mark.skipif(find_spec("math_verify") is None, reason="needs math-verify")
GRADER = """
def grade(response, problem):
    if response == "boom":
        raise SystemExit(3)
    return problem.answer["weight"] if response == problem.answer["word"] else False
"""
TESTS = ["assert add(2, 3) == 5"]
RIGHT, WRONG = "def add(a, b): return a + b", "def add(a, b): return a - b"
PROGRAM = {"program": RIGHT, "tests": TESTS, "entry_point": "add"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working directory with a grader."""
    (tmp_path / "mine.py").write_text(GRADER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def golds(path, *responses, gold="5"):
    return write(path / "in.jsonl", [{"gold": gold, "response": text} for text in responses])


def grade(*words, source="in.jsonl"):
    """The exit code of ``dph grade`` and the rows that it wrote."""
    (kind, more) = (words[:1], words[1:]) if words[0] in ("code", "math") else ((), words)
    given = ("grade", *kind, "--input", source, "--out", "out.jsonl", "--workers", 1, *more)
    code = main([str(word) for word in given])
    with open("out.jsonl") as file:  # noqa: PTH123 - of the working directory
        return code, [json.loads(line) for line in file]


def outcomes(rows):
    return [row["outcome"] for row in rows]


def test_a_verifier_of_ones_own_grades_a_file_of_answers(place, capsys):
    rows = [
        {"response": "b", "word": "b", "weight": 0.5},
        {"response": "a", "word": "b", "weight": 0.5, "problem_id": 7, "prompt": "?"},
        {"response": None, "word": "b", "weight": 0.5},
    ]
    write(place / "in.jsonl", rows)
    code, found = grade("--verifier", "mine:grade")
    assert code == 0
    assert outcomes(found) == ["WRONG", "WRONG", "NO_ANSWER"]
    assert [row["reward"] for row in found] == [0.5, 0.0, 0.0]
    assert found[1]["problem_id"] == 7
    assert all(row["seconds"] >= 0 for row in found)
    assert "3 rows, mean reward 0.1667" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "answer"), [("number", "so 5"), ("exact", "5")])
def test_the_built_in_verifiers_work_by_name(place, name, answer):
    (place / "in.csv").write_text(f"response,answer\n{answer},5\n6,5\n")
    code, found = grade("--verifier", name, source="in.csv")
    assert (code, outcomes(found)) == (0, ["CORRECT", "WRONG"])


def test_a_missing_gold_is_the_golds_fault(place):
    write(place / "in.jsonl", [{"response": "5", "answer": None}, {"response": "5"}])
    code, found = grade("--verifier", "exact")
    assert (code, outcomes(found)) == (0, ["BAD_GOLD", "BAD_GOLD"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--input in.jsonl --out o.jsonl", "dph grade needs --verifier"),
        ("--verifier mine:grade --out o.jsonl", "dph grade needs --input"),
        ("--verifier mine:grade --input in.jsonl", "dph grade needs --out"),
        ("--verifier mine:grade math --input x", "belong after the command"),
        ("--input in.jsonl --out o.jsonl --verifier sql", "dph grade sql"),
        ("--input in.jsonl --out o.jsonl --verifier code", "grade them with `dph grade code`"),
        ("--input in.jsonl --out o.jsonl --verifier mine:no", "has no 'no'"),
        ("--input in.jsonl --out o.jsonl --verifier number", "no column 'answer'"),
        ("--input in.txt --out o.jsonl --verifier exact", "must end in one of"),
        ("code --input gold.jsonl --out o.jsonl", "has no column 'tests'"),
        ("code --input tests.jsonl --out o.jsonl", "has no column 'response'"),
        ("code --input whole.jsonl --out o.jsonl --memory-mb 1", "at least 64000000 bytes"),
        ("code --input whole.jsonl --out o.jsonl --problems none.jsonl", "none.jsonl"),
        ("code --input asked.jsonl --out o.jsonl --problems p.jsonl", "'tests' or 'cases'"),
        ("code --input asked.jsonl --out p.jsonl --problems p.jsonl", "is the input; write to"),
        ("--audit exact --input in.jsonl --resume", "--input, --resume cannot be combined with"),
        ("--audit mine:grade --math-phrases so", "is not a setting of the verifier 'mine:grade'"),
        ("--problems p.jsonl --verifier exact", "--problems belongs to --audit, or after"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(place, refusal, words, message):
    for name, row in {
        "in": {"response": "b", "word": "b", "weight": 0.5},
        "gold": {"program": RIGHT, "response": "5"},
        "tests": {"tests": TESTS},
        "whole": {"program": RIGHT, "tests": TESTS},
        "asked": {"problem_id": "a", "response": RIGHT},
        "p": {"problem_id": "a", "prompt": "add", "answer": "5"},
    }.items():
        write(place / f"{name}.jsonl", [row])
    assert message in refusal("grade", *words.split())
    assert not (place / "o.jsonl").exists()


@needs_math
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--phrase so --verifier math_qwen", "are settings of math"),
        ("--no-any-expression --verifier math_qwen", "are settings of math"),
        ("--verifier maths", "there is no verifier 'maths'"),
        ("--verifier number --phrase so", "are settings of math, not number"),
        ("--verifier sql", "grade them with `dph grade sql`"),
    ],
)
def test_a_choice_of_mathematics_that_cannot_be_met_is_refused(place, refusal, words, message):
    golds(place, "5")
    given = ("grade", "math", "--input", "in.jsonl", "--out", "o.jsonl")
    assert message in refusal(*given, *words.split())
    for verb in ((*given, "--phrase"), ("grade", "--audit", "math", "--math-phrases")):
        assert "a final-answer phrase must be text, got ' '" in refusal(*verb, " ")
    write(place / "in.jsonl", [{"answer": "5"}])
    assert "has no column 'gold', 'response'" in refusal(*given)


@needs_math
@pytest.mark.parametrize(("verifier", "rewards"), [("math", [1, 0, 0]), ("math_qwen", [1, 1, 0])])
def test_mathematical_answers_come_out_with_their_verdicts(place, capsys, verifier, rewards):
    golds(place, r"\boxed{5.}", r"\boxed{500}", "nothing")
    code, rows = grade("math", "--verifier", verifier)
    assert code == 0
    assert [row["reward"] for row in rows] == rewards
    assert rows[2]["outcome"] == "NO_ANSWER"
    assert set(rows[0]) == {"gold", "response", "reward", "outcome", "reason", "seconds"}
    assert "3 rows, mean reward" in capsys.readouterr().out


@needs_math
def test_what_counts_as_an_answer_can_be_chosen(place):
    golds(place, "ergo 5", "The answer is 5.", "so 5")
    _, rows = grade("math", "--phrase", "Ergo", "--no-any-expression")
    assert outcomes(rows) == ["CORRECT", "NO_ANSWER", "NO_ANSWER"]


@needs_math
def test_rows_that_cannot_be_graded_are_no_part_of_the_mean(place, capsys):
    rows = [{"gold": gold, "response": r"\boxed{5}"} for gold in ("5", "5", "", "\\frac{")]
    rows[1]["response"] = "6"
    write(place / "in.jsonl", rows)
    _, graded = grade("math", "--json")
    ungradable = outcomes(graded).count("BAD_GOLD")
    assert ungradable >= 1
    content = json.loads(capsys.readouterr().out)
    assert (content["rows"], content["mean_rows"]) == (4, 4 - ungradable)
    assert content["mean_reward"] == 1 / (4 - ungradable)
    assert content["ungradable"] == content["outcomes"]["BAD_GOLD"] == ungradable
    grade("math")
    text = capsys.readouterr().out
    assert f"over {4 - ungradable} ({ungradable} BAD_GOLD: could not be graded" in text


@needs_math
def test_a_verifier_of_ones_own_gets_the_gold_as_the_answer(place):
    (place / "last.py").write_text(
        "def grade(response, problem):\n"
        "    return response.split()[-1] == str(problem.answer['answer'])\n"
    )
    rows = [{"gold": 5, "response": "so 5"}, {"gold": 5, "response": "so 6"}]
    write(place / "in.jsonl", [*rows, {"gold": None, "response": "so 5"}])
    code, graded = grade("math", "--verifier", "last:grade")
    assert (code, outcomes(graded)) == (0, ["CORRECT", "WRONG", "BAD_GOLD"])


def test_programs_with_their_own_tests_come_out_with_their_verdicts(place, capsys):
    rows = [
        PROGRAM,
        {"program": WRONG, "tests": json.dumps(TESTS), "entry_point": "add"},
        {"program": "print(input())", "tests": None, "cases": [{"stdin": "x", "stdout": "x"}]},
        {"program": RIGHT, "tests": None},
        {"program": RIGHT, "tests": 5},
        {"program": None, "tests": TESTS},
        {"program": " ", "tests": TESTS},
        {"program": RIGHT, "tests": "assert add( == 5"},
    ]
    write(place / "in.jsonl", rows)
    code, graded = grade("code", "--timeout", 20)
    assert code == 0
    assert outcomes(graded) == [
        *("CORRECT", "WRONG", "CORRECT", "BAD_GOLD", "BAD_GOLD"),
        *("NO_ANSWER", "NO_ANSWER", "BAD_GOLD"),
    ]
    assert {"reward", "outcome", "reason", "seconds"} < set(graded[0])
    assert "8 rows, mean reward 0.4000 over 5 (3 BAD_GOLD" in capsys.readouterr().out


def test_tests_are_found_in_a_file_of_problems_and_grading_can_be_resumed(place, capsys):
    problem = {"problem_id": "a", "prompt": "add", "tests": TESTS, "entry_point": "add"}
    write(place / "p.jsonl", [problem])
    rows = [
        {"problem_id": "a", "response": f"```python\n{RIGHT}\n```"},
        {"problem_id": "a", "response": "no"},
        {"problem_id": "b", "response": RIGHT},
    ]
    write(place / "in.jsonl", rows)
    more = ("--timeout", 20, "--problems", "p.jsonl", "--memory-mb", 300, "--json")
    code, graded = grade("code", *more)
    assert (code, outcomes(graded)) == (0, ["CORRECT", "NO_ANSWER", "BAD_GOLD"])
    assert graded[2]["reason"] == "there is no problem 'b'"
    assert json.loads(capsys.readouterr().out)["outcomes"]["CORRECT"] == 1
    assert outcomes(grade("code", *more, "--resume")[1]) == outcomes(graded)


def test_what_the_machine_lacks_is_said_in_one_line(place, capsys, monkeypatch):
    made = CodeVerifier.__init__
    monkeypatch.setattr(
        CodeVerifier, "__init__", lambda self, **given: made(self, **given, without=("files",))
    )
    write(place / "in.jsonl", [PROGRAM])
    code, graded = grade("code", "--timeout", 20)
    assert (code, outcomes(graded)) == (0, ["CORRECT"])
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "not confined" in each]
    assert line.startswith("dph: not confined by files (left out)")


def test_a_function_that_crashes_on_every_answer_ends_with_1_and_its_reason(place, capsys):
    (place / "broken.py").write_text("def grade(response, problem):\n    return 'yes'\n")
    write(place / "in.jsonl", [{"response": "b"}, {"response": None}])
    assert grade("--verifier", "broken:grade")[0] == 1
    assert "crashed on every answer; the first: it returned 'yes' (str)" in capsys.readouterr().err


def test_columns_of_other_names_are_told(place, refusal):
    rows = [{"target": "5", "text": "5"}, {"target": "5", "text": "6"}]
    write(place / "in.jsonl", rows)
    named = ("--column", "response=text", "--column", "answer=target")
    code, found = grade("--verifier", "exact", *named)
    assert code == 0
    assert outcomes(found) == ["CORRECT", "WRONG"]
    assert [{key: row[key] for key in rows[0]} for row in found] == rows
    names = ["target", "text", "response", "answer", "reward", "outcome", "reason", "seconds"]
    assert list(found[0]) == names
    assert [row["response"] for row in found] == ["5", "6"]
    said = refusal("grade", "--input", "in.jsonl", "--out", "no.jsonl",
                   "--verifier", "exact", "--column", "response=texts")  # fmt: skip
    assert "has no column 'answer', 'texts'; it has target, text" in said


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv"])
def test_verbs_after_it_find_the_columns_that_were_named(place, dph, document, form):
    rows = [{"number": n // 2, "target": "5", "text": str(4 + n % 2)} for n in range(4)]
    write(place / "in.jsonl", rows)
    named = [f"--column={name}" for name in ("problem_id=number", "response=text", "gold=target")]
    code, *_ = dph("grade", "math", "--verifier", "exact", "--input", place / "in.jsonl",
                   "--out", place / f"out.{form}", *named)  # fmt: skip
    assert code == 0
    found = document("passk", "--input", place / f"out.{form}")
    assert (found["problems"], found["metrics"]["mean"]["value"]) == (2, 0.5)
    found = document("show", place / f"out.{form}")
    assert found["problems"][0]["gold"] == {"answer": "5"}
    assert [one["text"] for one in found["problems"][0]["answers"]] == ["4", "5"]


def test_a_column_of_the_name_that_is_read_stays_and_is_told(place, capsys):
    write(place / "in.jsonl", [{"answer": "5", "response": "long", "text": "5"}])
    code, found = grade("--verifier", "exact", "--column", "response=text")
    assert (code, outcomes(found), found[0]["response"]) == (0, ["CORRECT"], "long")
    said = capsys.readouterr().err
    assert "another column 'response', which stays: give the next verb --column" in said
    write(place / "in.jsonl", [{**PROGRAM, "program": WRONG, "text": RIGHT}])
    assert outcomes(grade("code", "--timeout", 20, "--column", "response=text")[1]) == ["CORRECT"]


def test_a_grader_that_changes_its_mind_is_told(place, caplog):
    (place / "mine.py").write_text(
        "seen = []\ndef grade(response, problem):\n    seen.append(1)\n    return len(seen) % 2\n"
    )
    write(place / "in.jsonl", [{"problem_id": "p", "response": "4", "answer": "4"}] * 4)
    code, _ = grade("--verifier", "mine:grade")
    assert code == 0
    assert "gave 4 of 4 identical answers different verdicts" in caplog.text
