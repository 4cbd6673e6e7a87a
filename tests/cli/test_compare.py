import json

import pytest

from dph.evaluation.samples_file import samples_table, write_samples
from dph.records import Completion, GradedCompletion, Outcome, Verdict

PROBLEMS = 4


def graded(problem_id, index, *, right):
    return GradedCompletion(
        completion=Completion(
            problem_id=problem_id,
            sample_index=index,
            token_ids=(1,),
            logprobs=(0.0,),
            finished=True,
            text="x",
        ),
        verdict=Verdict(
            outcome=Outcome.CORRECT if right else Outcome.WRONG, reward=1.0 if right else 0.0
        ),
    )


@pytest.fixture
def make_run(tmp_path):
    """A run where each problem was solved ``solved`` times of ``samples``."""

    def make(name, *, solved, samples=4, problems=PROBLEMS, set_name="dev"):
        groups = [
            [graded(f"p{p}", i, right=i < solved) for i in range(samples)] for p in range(problems)
        ]
        directory = tmp_path / name
        directory.mkdir()
        write_samples(directory / "samples.parquet", samples_table(set_name, groups), digest="d")
        return directory

    return make


def test_the_first_run_is_the_baseline(dph, make_run):
    base, better = make_run("base", solved=1), make_run("better", solved=3)
    code, out, _ = dph("compare", base, better, "-k", 2, "--json")
    content = json.loads(out)
    rows = {(row["metric"], row["run"]): row for row in content["rows"]}
    assert code == 0
    assert content["baseline"] == str(base)
    assert rows["mean", str(base)]["difference"] is None
    assert rows["mean", str(better)]["difference"]["mean"] == pytest.approx(0.5)
    # 1 of 4 correct: 1 - C(3, 2) / C(4, 2) = 1/2; 3 of 4: two draws always hold a right one.
    assert rows["pass_at_2", str(base)]["value"] == pytest.approx(0.5)
    assert rows["pass_at_2", str(better)]["value"] == pytest.approx(1.0)


def test_the_table_shows_values_and_differences_with_intervals(dph, make_run):
    code, out, _ = dph("compare", make_run("a", solved=1), make_run("b", solved=3))
    assert code == 0
    assert "dev" in out
    assert "25.0 [25.0, 25.0]" in out
    assert "+50.0 [+50.0, +50.0]" in out
    assert "baseline" in out
    assert "pass@4" in out


def test_the_usual_k_are_those_that_fit(dph, make_run):
    runs = make_run("a", solved=1, samples=16), make_run("b", solved=1, samples=20)
    out = dph("compare", *runs)[1]
    assert "pass@8" in out
    assert "pass@16" in out
    assert "pass@32" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "nope"], "nope was not evaluated"),
        (["a", "a"], "named twice"),
        (["a", "--set-name", "test"], "was evaluated on dev, not on 'test'"),
        (["a", "-k", "9"], "k=9"),
        (["a", "fewer"], "cannot be compared"),
        (["a", "other"], "was not evaluated on set 'dev'"),
        (["a", "broken"], "broken"),
    ],
)
def test_what_cannot_be_compared_is_bad_input(dph, make_run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    make_run("a", solved=1)
    make_run("fewer", solved=1, problems=2)
    make_run("other", solved=1, set_name="test")
    (make_run("broken", solved=1) / "samples.parquet").write_bytes(b"no")
    code, out, err = dph("compare", *words)
    assert (code, out) == (2, "")
    assert err.startswith("dph: error: ")
    assert message in err
