import json

import pyarrow.parquet as pq
import pytest

from dph.records import Outcome, Problem
from dph.results.diagnosis.changes import Change
from dph.results.diagnosis.run_diagnosis import diagnose
from dph.runs.evaluate.samples_file import samples_table, write_samples
from dph.runs.evaluate.scores import keep_problems
from loop_parts import graded

HOSTILE = "<script>\x1b[2Jboom\u202e\n[red]not markup[/red]"


PROBLEMS = [
    Problem(problem_id=f"q{i}", prompt=f"what is {i}?", answer={"answer": str(i)}) for i in range(4)
]
SAID = {
    "C": ("right", Outcome.CORRECT, ""),
    "W": ("wrong", Outcome.WRONG, "was WRONG"),
    "X": (HOSTILE, Outcome.CRASHED, "was CRASHED"),
}


def answers(problem, letters):
    said = [SAID[letter] for letter in letters]
    return [
        graded(outcome, problem=problem, index=i, text=text, reason=reason, style="plain")
        for i, (text, outcome, reason) in enumerate(said)
    ]


@pytest.fixture
def make_run(tmp_path):
    def make(name, *groups):
        directory = tmp_path / name
        directory.mkdir(parents=True)
        write_samples(directory / "samples.parquet", samples_table("dev", groups), digest="d")
        keep_problems(directory / "problems.parquet", {"dev": PROBLEMS})
        return directory

    return make


@pytest.fixture
def make_pair(make_run):
    """A run with its base, of which every problem has letters for its answers."""

    def make(name, **letters):
        made = make_run(name, *(answers(q, after) for q, (after, _) in letters.items()))
        make_run(f"{name}/base", *(answers(q, before) for q, (_, before) in letters.items()))
        evaluation = '{"model": "base", "samples": 4, "sets": {}}'
        (made / "base" / "evaluation.json").write_text(evaluation)
        return made

    return make


@pytest.fixture
def run(make_pair):
    """q0: kept, q1: lost, q2: gained, q3: lost with fewer of the base's samples right."""
    return make_pair(
        "run", q0=("CCW", "CWW"), q1=("WWX", "CCW"), q2=("CWW", "WWW"), q3=("WWW", "WCW")
    )


def ids(content):
    return [problem["problem_id"] for problem in content["problems"]]


def test_lost_and_gained_are_the_verdict_of_diagnose_and_no_filter_changes_them(
    dph, document, make_pair
):
    """q1 lost all, q2 gained all, q3 lost the only one, q0 changed nothing."""
    never, always = "W" * 12, "C" * 12
    long_run = make_pair(
        "long",
        q0=(always, always),
        q1=(never, always),
        q2=(always, never),
        q3=(never, "C" + never[1:]),
    )
    found = diagnose(long_run, long_run / "base", resamples=1).sets["dev"]
    lost = document("show", long_run, "--lost")
    assert ids(lost) == [one.problem_id for one in found.of(Change.LOST)] == ["q1"]
    assert ids(document("show", long_run, "--lost", "--set-name", "dev")) == ["q1"]
    assert lost["problems"][0]["base"] == {"correct": 12, "samples": 12}
    text = dph("show", long_run, "--lost", "--no-pager")[1]
    assert "12/12" in text  # a person sees the answers of both models
    assert lost["problems"][0]["scores"] == {str(long_run): {"correct": 0, "samples": 12}}
    assert ids(document("show", long_run, "--gained")) == ["q2"]
    _, out, err = dph("show", make_pair("same", q0=(always, always)), "--lost")
    assert "0 of 0 problems" in out
    assert "dph diagnose names the problems" in err


def test_equal_answers_are_one_group_with_the_counts_of_both_runs(document, run):
    content = document("show", run, run / "base", "--problem", "q1")
    (problem,) = content["problems"]
    assert (problem["prompt"], problem["gold"]) == ("what is 1?", {"answer": "1"})
    counts = {a["text"]: tuple(a["counts"].values()) for a in problem["answers"]}
    assert counts == {"wrong": (2, 1), "right": (0, 2), HOSTILE: (1, 0)}
    assert problem["answers"][0]["text"] == "wrong"
    assert problem["answers"][-1]["reason"] == "was CRASHED"


def test_an_outcome_shows_its_problems_and_only_its_answers(document, run):
    content = document("show", run, "--outcome", "crashed")
    assert ids(content) == ["q1"]
    assert [a["outcome"] for a in content["problems"][0]["answers"]] == ["CRASHED"]
    assert content["problems"][0]["scores"][str(run)]["samples"] == 3


def test_a_limit_says_how_many_of_how_many(dph, document, run):
    content = document("show", run, "--limit", 3)
    assert (content["problems_shown"], content["problems_chosen"]) == (3, 4)
    _, out, _ = dph("show", run, "--limit", 1)
    assert "1 of 4 problems shown" in out
    _, out, _ = dph("show", run, "--problem", "q1", "--answers", 1)
    assert "and 1 more different answers" in out


def test_people_see_prompt_gold_counts_and_no_control_characters(dph, run):
    code, out, _ = dph("show", run, run / "base", "--problem", "q1")
    assert code == 0
    for text in ("what is 1?", "answer: 1", "base 2/3", "run 0/3", "was CRASHED", "right", "wrong"):
        assert text in out, text
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert r"\x1b[2Jboom\u202e" in out
    assert "[red]not markup[/red]" in out


def test_long_texts_are_cut_with_what_is_left_in_numbers_unless_all_is_asked_for(dph, make_run):
    directory = make_run("long", [graded(problem="q0", text="z" * 5000)])
    _, out, _ = dph("show", directory)
    assert "(4400 more characters)" in out
    assert out.count("z") == 600
    _, out, _ = dph("show", directory, "--full")
    assert out.count("z") == 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lost", "--gained"], "give --lost or --gained"),
        (["--problem", "q9"], "there is no problem 'q9' among the 4"),
        (["--set-name", "test"], "there is no set 'test'; the evaluated sets are dev"),
        (["--outcome", "fine"], "fine"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_bad_input_is_named(refusal, run, arguments, message):
    assert message in refusal("show", run, *arguments)


def test_runs_that_were_not_evaluated_say_what_to_do(refusal, tmp_path, make_run):
    assert "there is no run directory" in refusal("show", tmp_path / "nothing")
    alone = make_run("alone", answers("q0", "C"))
    assert (
        f"no evaluation of the initial policy in {alone / 'base'} or {tmp_path / 'base'}"
        in refusal("show", alone, "--lost")
    )
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "metrics.jsonl").write_text("")
    assert "run `dph evaluate`" in refusal("show", tmp_path / "trained")


def test_the_answers_of_a_pool_and_of_a_step_are_shown_with_their_verdicts(
    dph, document, refusal, example, tmp_path
):
    out = tmp_path / "run"
    small = ("train.steps=1", "train.keep_samples=all", "evaluate.samples=2", "evaluate.k=[1, 2]")
    assert dph("presample", example, "--out", out, settings=small)[0] == 0
    explored = document("show", out, "--pool", "--limit", 12)
    assert dph("run", example, "--out", out, settings=small)[0] == 0
    pool = document("show", out, "--pool", "--limit", 12)
    manifest = json.loads((out / "pool" / "manifest.json").read_text())
    drawn = pq.read_table(out / "pool" / "samples.parquet")["outcome"].to_pylist()
    scores = [problem["scores"][str(out)] for problem in pool["problems"]]
    assert sum(score["samples"] for score in scores) == len(drawn)
    assert sum(score["correct"] for score in scores) == drawn.count("CORRECT")
    assert all(problem["gold"] for problem in pool["problems"])
    known = sum(problem["prompt"] is not None for problem in explored["problems"])
    assert known == manifest["counts"]["exploration"]  # without a recipe in the run
    assert document("show", out / "pool", "--pool")["problems_chosen"] == len(scores)
    (name,) = {problem["set"] for problem in document("show", out, "--step", 1)["problems"]}
    assert name == "step 1"
    wrong = document("show", out, "--step", 1, "--outcome", "wrong")
    assert {a["outcome"] for p in wrong["problems"] for a in p["answers"]} == {"WRONG"}
    text = dph("show", out, "--step", 1, "--limit", 1)[1]
    assert "step 1 / " in text
    for more, said in (
        (("--step", 9), "no answers of step 9 are kept; there are: 1"),
        (("--step", 1, "--pool"), "show one of both"),
        (("--pool", "--lost"), "of RUN alone"),
    ):
        assert said in refusal("show", out, *more)
