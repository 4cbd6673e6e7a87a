import json

import pytest

from dph.cli import main

pytest.importorskip("math_verify")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def grade(source, target, *more):
    words = ["grade", "math", "--input", source, "--out", target, "--workers", 1, *more]
    code = main([str(word) for word in words])
    return code, [json.loads(line) for line in target.read_text().splitlines()]


@pytest.mark.parametrize(("verifier", "rewards"), [("math", [1, 0, 0]), ("math_qwen", [1, 1, 0])])
def test_rows_come_out_with_their_verdicts(tmp_path, capsys, verifier, rewards):
    answers = [r"\boxed{5.}", r"\boxed{500}", "nothing"]
    source = write(tmp_path / "in.jsonl", [{"gold": "5", "response": text} for text in answers])
    code, rows = grade(source, tmp_path / "out.jsonl", "--verifier", verifier)
    assert code == 0
    assert [row["reward"] for row in rows] == rewards
    assert rows[2]["outcome"] == "NO_ANSWER"
    assert set(rows[0]) == {"gold", "response", "reward", "outcome", "reason", "seconds"}
    assert "3 rows, mean reward" in capsys.readouterr().out


def test_what_counts_as_an_answer_can_be_chosen(tmp_path):
    answers = ["ergo 5", "The answer is 5.", "so 5"]
    source = write(tmp_path / "in.jsonl", [{"gold": "5", "response": text} for text in answers])
    _, rows = grade(source, tmp_path / "o.jsonl", "--phrase", "Ergo", "--no-any-expression")
    assert [row["outcome"] for row in rows] == ["CORRECT", "NO_ANSWER", "NO_ANSWER"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--phrase", " "), "a final-answer phrase must be text, got ' '"),
        (("--verifier", "math_qwen", "--phrase", "so"), "are settings of math"),
        (("--verifier", "math_qwen", "--no-any-expression"), "are settings of math"),
    ],
)
def test_choices_that_cannot_be_met_are_refused(tmp_path, capsys, more, message):
    source = write(tmp_path / "in.jsonl", [{"gold": "5", "response": "5"}])
    words = ["grade", "math", "--input", source, "--out", tmp_path / "o.jsonl", *more]
    assert main([str(word) for word in words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_file_without_the_columns_is_bad_input(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", [{"answer": "5"}])
    assert main(["grade", "math", "--input", str(source), "--out", str(tmp_path / "o.jsonl")]) == 2
    assert "has no column 'gold', 'response'" in capsys.readouterr().err


def test_rows_that_cannot_be_graded_are_no_part_of_the_mean(tmp_path, capsys):
    golds = ["5", "5", "", "\\frac{"]
    rows = [{"gold": g, "response": r"\boxed{5}"} for g in golds]
    rows[1]["response"] = "6"
    source, target = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    _, graded = grade(source, target, "--json")
    ungradable = [row["outcome"] for row in graded].count("BAD_GOLD")
    assert ungradable >= 1
    content = json.loads(capsys.readouterr().out)
    assert (content["rows"], content["mean_rows"]) == (4, 4 - ungradable)
    assert content["mean_reward"] == 1 / (4 - ungradable)
    assert content["ungradable"] == content["outcomes"]["BAD_GOLD"] == ungradable
    grade(source, target)
    text = capsys.readouterr().out
    assert f"over {4 - ungradable} ({ungradable} BAD_GOLD: could not be graded" in text


def test_a_verifier_of_ones_own_gets_the_gold_as_the_answer(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "def grade(response, problem):\n"
        "    return response.split()[-1] == str(problem.answer['answer'])\n"
    )
    monkeypatch.chdir(tmp_path)
    rows = [{"gold": 5, "response": "so 5"}, {"gold": 5, "response": "so 6"}]
    source = write(tmp_path / "in.jsonl", [*rows, {"gold": None, "response": "so 5"}])
    code, graded = grade(source, tmp_path / "out.jsonl", "--verifier", "mine:grade")
    assert code == 0
    assert [row["outcome"] for row in graded] == ["CORRECT", "WRONG", "BAD_GOLD"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--verifier", "maths"), "there is no verifier 'maths'"),
        (("--verifier", "number", "--phrase", "so"), "are settings of math, not number"),
        (("--verifier", "sql"), "grade them with `dph grade sql`"),
    ],
)
def test_a_verifier_that_does_not_fit_is_refused(tmp_path, capsys, more, message):
    source = write(tmp_path / "in.jsonl", [{"gold": "5", "response": "5"}])
    words = ["grade", "math", "--input", source, "--out", tmp_path / "o.jsonl", *more]
    assert main([str(word) for word in words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
