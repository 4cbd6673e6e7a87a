"""Two files of answers, made by any tool, go through every verb that looks at runs."""

import json
import random

import pytest

from report_runs import unpacked

PROBLEMS = 24


def rows(chance, *, seed, samples=16):
    draw = random.Random(seed)
    return [
        {
            "problem_id": f"q{p}",
            "prompt": f"What is {p} + {p}?",
            "gold": str(2 * p),
            "response": f"It is {2 * p if right else 1}.",
            "correct": right,
        }
        for p in range(PROBLEMS)
        for _ in range(samples)
        for right in [draw.random() < chance(p)]
    ]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A base model that solves everything sometimes, and one that solves half of it always."""
    monkeypatch.chdir(tmp_path)
    base = rows(lambda p: 0.9 if p < 4 else 0.2, seed=0)
    trained = rows(lambda p: float(p < 12), seed=1, samples=8)
    for name, of in (("base.jsonl", base), ("trained.jsonl", trained)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in of))
    return tmp_path


def test_two_files_become_a_full_report_in_one_command(dph, files):
    code, out, err = dph("report", "base.jsonl", "trained.jsonl")
    assert code == 0
    assert out.startswith("report: report.html")
    assert f"{PROBLEMS * 24} answers" in out
    assert err.splitlines() == [
        "base.jsonl: rows of graded answers, 24 problems, 16 answers each, right by correct",
        "trained.jsonl: rows of graded answers, 24 problems, 8 answers each, right by correct",
    ]
    page = (files / "report.html").read_text()
    assert "solved only by Base model" in page
    assert "Solved only by the base model" in page
    letters = page.split('id="answers-0-0"')[1].split(">", 1)[1].split("<", 1)[0]
    piece = unpacked(letters.strip())
    assert piece["problems"][0] == {"prompt": "What is 0 + 0?", "fields": {"answer": "0"}}
    assert set(piece["texts"]) >= {"It is 1.", "It is 2."}


@pytest.mark.usefixtures("files")
def test_the_first_file_is_the_baseline_of_a_comparison(dph):
    code, out, _ = dph("compare", "base.jsonl", "trained.jsonl", "--json", "-k", 8)
    content = json.loads(out)
    assert (code, content["baseline"]) == (0, "base.jsonl")
    last = next(
        r for r in content["rows"] if (r["metric"], r["run"]) == ("pass_at_8", "trained.jsonl")
    )
    assert last["value"] == 0.5
    assert last["difference"]["mean"] < -0.2


@pytest.mark.usefixtures("files")
def test_a_diagnosis_names_what_only_the_baseline_solved(dph):
    code, out, _ = dph("diagnose", "trained.jsonl", "--against", "base.jsonl")
    assert code == 0
    assert "no metrics.jsonl" not in out
    assert "solved by the base model and by no answer of the run" in out
    assert "12 of them were solved too rarely for each to be named lost" in out
    assert "solved only by the base model: 10 of 12" in out


def test_answers_without_styles_are_classified_by_the_one_that_is_named(dph, refusal, files):
    for name, sign in (("base", "+-"), ("trained", "++")):
        of = [json.loads(line) for line in (files / f"{name}.jsonl").read_text().splitlines()]
        said = [row | {"response": f"1 {sign[i % 2]} 1"} for i, row in enumerate(of)]
        (files / f"{name}.jsonl").write_text("\n".join(map(json.dumps, said)))
    words = ("diagnose", "trained.jsonl", "--against", "base.jsonl")
    for chosen, shares in (
        ((), []),
        (("--styles", "first_operation"), [("+", 1, 0.5), ("-", 0, 0.5)]),
    ):
        _, out, _ = dph(*words, *chosen, "--json")
        [found] = json.loads(out)["sets"].values()
        shown = [(one["style"], one["share"], one["baseline_share"]) for one in found["styles"]]
        assert shown == shares
    assert "there is no style 'signs'" in refusal(*words, "--styles", "signs")


def test_lost_problems_are_shown_with_the_answers_of_both(document, files):
    lost = [json.dumps(row | {"correct": False}) for row in rows(bool, seed=0)]
    (files / "trained.jsonl").write_text("\n".join(lost))
    content = document("show", "trained.jsonl", "base.jsonl", "--lost")
    named = [problem["problem_id"] for problem in content["problems"]]
    assert {"q0", "q1", "q2", "q3"} <= set(named)
    assert content["problems"][0]["prompt"] == f"What is {named[0][1:]} + {named[0][1:]}?"


def test_columns_are_named_for_every_verb(dph, refusal, files):
    for name in ("base", "trained"):
        of = [json.loads(line) for line in (files / f"{name}.jsonl").read_text().splitlines()]
        renamed = [
            {"q": r["problem_id"], "ok": str(r["correct"]), "answer": r["response"]} for r in of
        ]
        (files / f"{name}.jsonl").write_text("\n".join(map(json.dumps, renamed)))
    named = ["--column", "problem_id=q", "--column", "correct=ok", "--column", "response=answer"]
    two = ["base.jsonl", "trained.jsonl"]
    for words in (
        ["compare", *two],
        ["report", *two],
        ["diagnose", two[1], "--against", two[0]],
        ["show", *two],
        ["passk", "--input", two[1], "--against", two[0]],
    ):
        assert "there is no 'problem_id' and no 'reward', only q, ok, answer" in refusal(*words)
        assert dph(*words, *named)[0] == 0
    assert "'q' is not of the form NAME=COLUMN" in dph("compare", *two, "--column", "q")[2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "x.jsonl",
            '{"a": 1}\n',
            "or a file of verl, TRL, lm-eval, Inspect, lighteval or evalplus",
        ),
        ("x.jsonl", "", "no graded samples: it is empty"),
        ("x.toml", "a = 1", "must end in one of"),
        ("x.jsonl", '{"problem_id": "z", "correct": 1}', "no problem is in all files"),
        ("x.jsonl", '{"problem_id": "q1", "gold": "3", "correct": 1}', "one id, two problems"),
    ],
)
def test_a_wrong_file_is_one_line_and_nothing_is_written(refusal, files, name, content, message):
    (files / name).write_text(content)
    assert message in refusal("report", "base.jsonl", name)
    assert not (files / "report.html").exists()


def test_problems_that_one_file_lacks_are_counted(dph, files):
    part = (files / "trained.jsonl").read_text().splitlines()[: 20 * 8]
    (files / "trained.jsonl").write_text("\n".join(part))
    code, _, err = dph("compare", "base.jsonl", "trained.jsonl")
    assert code == 0
    assert "4 of 24 problems are left out, since not all files have them, for example 'q20'" in err


@pytest.mark.usefixtures("files")
def test_one_file_alone_says_what_to_name(dph, refusal):
    assert "name the base model's answers" in refusal("diagnose", "trained.jsonl")
    assert dph("report", "trained.jsonl")[0] == 0
