import json

import pytest


@pytest.fixture
def write(tmp_path):
    def to_file(name, **problems):
        path = tmp_path / name
        rows = [
            {"problem_id": problem, "reward": float(sample)}
            for problem, samples in problems.items()
            for sample in samples
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return to_file


def test_a_file_alone(dph, write):
    code, out, _ = dph("passk", "--input", write("a.jsonl", a="1000", b="1111"))
    assert code == 0
    assert "62.5 [25.0, 100.0]" in out
    assert "pass@4" in out
    assert "2 problems, 4 samples each" in out


def test_a_file_against_another_as_json(dph, write):
    new, base = write("new.jsonl", a="1111", b="1100"), write("base.jsonl", a="1000", b="0000")
    words = ("passk", "--input", new, "--against", base, "--k", 2, "--retention-k", 2, "--json")
    code, out, _ = dph(*words)
    content = json.loads(out)
    assert code == 0
    assert list(content["metrics"]) == ["mean", "pass_at_2"]
    assert content["metrics"]["mean"]["difference"]["mean"] == 0.625
    assert content["metrics"]["pass_at_2"]["against"]["value"] == 0.25
    # Base: only a is solved by its first two samples, and its last two are wrong.
    assert (content["keep"], content["keep_null"]) == (1.0, 0.0)
    assert (content["explore"], content["explore_null"]) == (0.0, 0.0)


def test_the_table_says_why_there_is_no_keep(dph, write):
    new, base = write("new.jsonl", a="111", b="1"), write("base.jsonl", a="10", b="0")
    out = dph("passk", "--input", new, "--against", base)[1]
    assert "keep and explore need 16 samples" in out
    assert "1 to 3 samples each" in out


def test_problems_without_a_gold_answer_are_counted(dph, tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [
        {"problem_id": "a", "reward": 0, "outcome": "BAD_GOLD"},
        {"problem_id": "b", "reward": 1},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert "1 problem(s) left out" in dph("passk", "--input", path)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "gone.jsonl"], "there is no file gone.jsonl"),
        (["--input", "a.jsonl", "-k", "9"], "k=9"),
        (["--input", "a.jsonl", "--against", "b.jsonl"], "cannot be compared problem by problem"),
        (["--input", "a.jsonl", "--set-name", "dev"], "no rows of the set 'dev'"),
        ([], "--input"),
    ],
)
def test_bad_input_is_one_line(dph, write, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    write("a.jsonl", a="10")
    write("b.jsonl", c="10")
    code, out, err = dph("passk", *words)
    assert (code, out) == (2, "")
    assert err.startswith("dph: error: ")
    assert message in err
    assert len(err.splitlines()) == 1
