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
    assert "all k together" not in out


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


def test_it_says_where_the_model_begins_to_lose(dph, document, write):
    # Half of the problems become certain, the others are lost: at k = 1, 2, 4 from 1/4, 1/2, 1 to
    # 1/2, 1/2, 1/2.
    base = write("base.jsonl", **{f"p{i}": "1000" for i in range(40)})
    new = write("new.jsonl", **{f"p{i}": "1111" if i % 2 else "0000" for i in range(40)})
    content = document("passk", "--input", new, "--against", base)
    band = {row["k"]: row for row in content["band"]}
    assert list(band) == [1, 2, 4]
    assert band[4]["difference"] == content["metrics"]["pass_at_4"]["difference"]["mean"] == -0.5
    assert band[4]["low"] < band[4]["pointwise_low"] < band[4]["pointwise_high"] < band[4]["high"]
    first_loss = content["first_loss"]
    assert (first_loss["not_above"], first_loss["below"]) == ([2, 4], [4])
    assert first_loss["confidence"] == 0.95
    assert first_loss["peer"]["source"] == "arXiv:2609.22547"
    out = dph("passk", "--input", new, "--against", base)[1]
    said = "Of these k, above the base up to k=1; below it from k=4 on (95%, all k together)."
    assert said in out.splitlines()
    low, high = (100 * band[4][name] for name in ("low", "high"))
    (line,) = (line for line in out.splitlines() if line.startswith("pass@4"))
    assert f"[{low:+.1f}, {high:+.1f}]" in line


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
def test_bad_input_is_one_line(refusal, write, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    write("a.jsonl", a="10")
    write("b.jsonl", c="10")
    assert message in refusal("passk", *words)
