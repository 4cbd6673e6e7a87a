import json

import numpy as np
import pytest

from dph import DataError, compare
from dph.records import Outcome
from dph.runs.evaluate.samples_file import samples_table, write_samples
from loop_parts import graded
from report_runs import make_runs
from results.diagnosis.models import Model, a_model, samples_of, save_evaluation


def save_run(directory, solved, *, samples=4, style=lambda _: None, set_name="dev"):
    """A run where problem i was solved ``solved[i]`` times of ``samples``."""
    groups = [
        [
            graded(
                Outcome.CORRECT if i < count else Outcome.WRONG,
                problem=f"p{p}",
                index=i,
                style=style(i),
            )
            for i in range(samples)
        ]
        for p, count in enumerate(solved)
    ]
    directory.mkdir(parents=True)
    write_samples(directory / "samples.parquet", samples_table(set_name, groups), digest="d")
    return directory


@pytest.fixture
def make_run(tmp_path):
    """A run where each problem was solved ``solved`` times."""

    def make(name, *, solved, problems=4, **how):
        return save_run(tmp_path / name, [solved] * problems, **how)

    return make


def test_the_first_run_is_the_baseline(document, make_run):
    base, better = make_run("base", solved=1), make_run("better", solved=3)
    content = document("compare", base, better, "-k", 2)
    rows = {(row["metric"], row["run"]): row for row in content["rows"]}
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
    # Of four equal values: q = 0.025^(1/4) = 0.3976; 0.25 q, and 0.25 q + (1 - q).
    assert "25.0 [9.9, 70.2]" in out
    assert "+50.0 [-40.4, +80.1]" in out
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
        (["a", "nope"], "there is no run directory nope"),
        (["a", "a"], "named twice"),
        (["a", "--set-name", "test"], "was evaluated on dev, not on 'test'"),
        (["a", "-k", "9"], "k=9"),
        (["a", "fewer"], "cannot be compared"),
        (["a", "other"], "was not evaluated on set 'dev'"),
        (["a", "broken"], "broken"),
    ],
)
def test_what_cannot_be_compared_is_bad_input(
    refusal, make_run, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    make_run("a", solved=1)
    make_run("fewer", solved=1, problems=2)
    make_run("other", solved=1, set_name="test")
    (make_run("broken", solved=1) / "samples.parquet").write_bytes(b"no")
    assert message in refusal("compare", *words)


def test_runs_are_called_by_what_tells_them_apart(dph, document, tmp_path):
    runs = [save_run(tmp_path / name, [1, 2]) for name in ("a/run", "b/run", "c")]
    code, out, _ = dph("compare", *runs)
    assert code == 0
    assert str(tmp_path) not in out
    assert {"a/run", "b/run", "c"} <= set(out.split())
    content = document("compare", *runs)
    assert content["labels"] == {
        str(run): label for run, label in zip(runs, ("a/run", "b/run", "c"), strict=True)
    }


def test_styles_keep_and_explore_stand_beside_the_differences(dph, document, tmp_path):
    base = save_run(tmp_path / "base", [0, 4], style=lambda i: f"s{i % 2}")
    after = save_run(tmp_path / "after", [4, 0], style=lambda _: "s0")
    words = ("compare", base, after, "--retention-k", 2)
    code, out, _ = dph(*words)
    assert code == 0
    assert "effective styles" in out
    sets = {row["run"]: row for row in document(*words)["sets"]}
    assert sets[str(base)]["effective_styles"] == pytest.approx(2.0)
    assert sets[str(base)]["styles"] == {"s0": 0.5, "s1": 0.5}
    assert sets[str(after)]["effective_styles"] == pytest.approx(1.0)
    # The base solves p1 alone, the other p0 alone: nothing is kept, all of the rest is found.
    assert (sets[str(after)]["keep"], sets[str(after)]["explore"]) == (0.0, 1.0)
    assert (sets[str(after)]["keep_null"], sets[str(after)]["explore_null"]) == (1.0, 0.0)
    assert sets[str(base)]["first_loss"] is None


def test_the_k_above_and_below_the_baseline_hold_together(dph, document, tmp_path):
    # The base solves all problems now and then, the other model half of them always.
    base, after = save_run(tmp_path / "b", [1] * 40), save_run(tmp_path / "a", [4, 0] * 20)
    content = document("compare", base, after)
    assert [on_set["first_loss"] for on_set in content["sets"]] == [
        None,
        {"not_above": [2, 4], "below": [4], "confidence": 0.95},
    ]
    lines = dph("compare", base, after)[1].splitlines()
    assert any(line.split()[-2:] == ["1", "4"] for line in lines)


def test_the_problems_that_changed_most_are_listed_on_request(dph, document, tmp_path):
    base, after = save_run(tmp_path / "x", [2, 2, 2, 2]), save_run(tmp_path / "y", [2, 3, 0, 1])
    content = document("compare", base, after, "--problems", 2)
    assert [(p["problem_id"], p["change"]) for p in content["problems"]] == [
        ("p2", -0.5),
        ("p1", 0.25),
    ]
    assert content["problems"][0]["baseline_correct"] == 2
    out = dph("compare", base, after, "--problems", 9)[1]
    assert [line.split()[-3:] for line in out.splitlines() if " p" in line and "/4" in line] == [
        ["p2", "0/4", "2/4"],
        ["p1", "3/4", "2/4"],
        ["p3", "1/4", "2/4"],
    ]
    assert "p2" not in dph("compare", base, after)[1]


def test_a_notebook_gets_the_rows_that_the_command_prints(document, make_run):
    base, better = make_run("base", solved=1), make_run("better", solved=3)
    printed = document("compare", base, better)["rows"]
    rows = compare(str(base), better)
    assert [(row.metric, row.run, row.value) for row in rows] == [
        (row["metric"], row["run"], row["value"]) for row in printed
    ]


def test_a_notebook_compares_on_chosen_sets_and_ks(make_run):
    base, better = make_run("base", solved=1), make_run("better", solved=3)
    assert {row.metric for row in compare(base, better, ks=[2])} == {"mean", "pass_at_2"}
    with pytest.raises(DataError, match="was evaluated on dev, not on 'test'"):
        compare(base, sets=["test"])


def test_a_directory_of_runs_is_compared_with_what_they_began_with(dph, tmp_path):
    runs = make_runs(tmp_path / "quickstart", sets={"in_domain": 4})
    code, out, err = dph("compare", runs, "--json")
    content = json.loads(out)
    assert (code, err) == (0, "")
    assert content["baseline"] == str(runs / "base")
    assert list(content["labels"].values()) == ["base", "dph_f", "grpo"]


BASE = a_model(60)
COLLAPSED = Model(shares=np.tile([0.985, 0.005, 0.005, 0.005], (60, 1)), chances=BASE.chances)


@pytest.fixture
def runs(tmp_path):
    """A run that collapsed, with its log, and its initial policy."""
    run = save_evaluation(tmp_path / "run", samples_of(*COLLAPSED.drawn(16, 0)))
    run.joinpath("metrics.jsonl").write_text(
        '{"step": 1, "entropy": 2}\n{"step": 2, "entropy": 1}\n'
    )
    return run, save_evaluation(tmp_path / "base", samples_of(*BASE.drawn(16, 1)))


def test_what_was_lost_is_said_in_sentences_and_tables(dph, runs):
    run, base = runs
    code, out, err = dph("diagnose", run, "--against", base)
    assert (code, err) == (0, "")
    assert "3 of 4 styles died: b (" in out
    assert "styles that died" in out
    assert "\nlost: " in out
    assert "Training log\n" in out
    assert "fell from 2.00 to 1.00" in out
    assert "with a chance of at most 0.05" in out


def test_json_has_every_problem(document, runs):
    run, base = runs
    document = document("diagnose", run, "--against", base, "-k", 4, "--fdr", "0.2")
    assert (document["run"], document["baseline"], document["fdr"]) == (str(run), str(base), 0.2)
    assert len(document["sets"]["dev"]["problems"]) == 60
    assert list(document["sets"]["dev"]["pass_at_k"]) == ["4"]


def test_the_number_of_problems_listed_is_chosen(dph, runs):
    words = "diagnose", runs[0], "--against", runs[1]
    assert "\nlost: 1 of" in dph(*words, "--problems", 1)[1]
    assert "\nlost: " not in dph(*words, "--problems", 0)[1]


def test_how_little_of_a_style_is_none_is_chosen(document, runs):
    words = "diagnose", runs[0], "--against", runs[1]
    for died, dead in (("0.1", 3), ("0.001", 0)):
        styles = document(*words, "--died", died)["sets"]["dev"]["styles"]
        assert sum(one["died"] for one in styles) == dead


def test_a_set_is_chosen(dph, refusal, runs):
    words = "diagnose", runs[0], "--against", runs[1]
    assert "DEV" in dph(*words, "--set-name", "dev")[1]
    assert "was evaluated on dev, not on 'test'" in refusal(*words, "--set-name", "test")


def test_the_baseline_is_found_in_the_run(dph, runs, tmp_path):
    run, base = runs
    base.joinpath("evaluation.json").write_text('{"model": "m", "samples": 4, "sets": {}}')
    assert f"{run} against {tmp_path / 'base'}" in dph("diagnose", run)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope"], "nope was not evaluated"),
        (["run", "--against", "run"], "compared with itself"),
        (["run"], "--against names another to compare with"),
        (["run", "--against", "base", "--fdr", "2"], "between 0 and 1, got 2"),
        (["run", "--against", "base", "--died", "1"], "[0, 1), got 1"),
        (["run", "--against", "base", "-k", "99"], "k=99"),
    ],
)
def test_what_cannot_be_diagnosed_is_bad_input(dph, runs, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = dph("diagnose", *words)
    assert runs
    assert (code, out) == (2, "")
    assert err.startswith("dph: error: ")
    assert message in err


def test_names_that_others_chose_are_neither_markup_nor_commands(dph, tmp_path):
    hostile = ("[red]a[/red]", "b\x1b[31m", "c\u202e", "d\nd")
    run = save_evaluation(tmp_path / "run", samples_of(*COLLAPSED.drawn(16, 0), names=hostile))
    base = save_evaluation(tmp_path / "base", samples_of(*BASE.drawn(16, 1), names=hostile))
    code, out, _ = dph("diagnose", run, "--against", base)
    assert code == 0
    assert "[red]a[/red]" in out
    assert not {"\x1b", "\u202e"} & set(out)
    assert "d d" in out
    lines = (f'{{"set": "s\\u001b]0;x", "problem_id": "a", "correct": {n % 2}}}' for n in range(4))
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    for words in (["compare", tmp_path / "own.jsonl"], ["passk", "--input", tmp_path / "none\x1b"]):
        assert "\x1b" not in "".join(dph(*words)[1:])


def test_every_run_of_a_directory_is_diagnosed(dph, document, refusal, tmp_path):
    runs = make_runs(tmp_path / "quickstart", sets={"in_domain": 4})
    (runs / "dph_f" / "samples.parquet").unlink()
    code, out, err = dph("diagnose", runs, "--json")
    document = json.loads(out)
    assert code == 0
    assert "dph_f was not evaluated" in err
    assert document["notes"] == [err.strip()]
    assert [(one["run"], one["baseline"]) for one in document["diagnoses"]] == [
        (str(runs / "grpo"), str(runs / "base"))
    ]
    assert f"{runs / 'grpo'} against {runs / 'base'}" in dph("diagnose", runs)[1]
    (runs / "grpo" / "samples.parquet").unlink()
    assert "grpo was not evaluated" in refusal("diagnose", runs)
