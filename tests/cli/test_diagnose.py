import json

import numpy as np
import pytest

from report_runs import make_runs
from results.diagnosis.models import Model, a_model, samples_of, save_evaluation

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
