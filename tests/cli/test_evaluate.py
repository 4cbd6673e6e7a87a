import json
import shutil

import pytest

from dph.cli.evaluation_text import evaluation_text, number, percent


def test_a_document_becomes_one_row_a_set():
    document = {
        "model": "m",
        "samples": 8,
        "sets": {
            "dev": {
                "problems": 3,
                "greedy": None,
                "mean": 0.5,
                "pass_at_k": {"1": 0.5, "8": 0.75},
                "ci95": {"greedy": None, "mean": [0.4, 0.6]},
                "keep": 0.9,
                "keep_null": 0.95,
                "explore": None,
                "explore_null": None,
                "effective_styles": 2.25,
            }
        },
    }
    lines = evaluation_text(document).splitlines()
    assert lines[1].split() == (
        [
            "set",
            "problems",
            "greedy",
            "mean",
            "pass@1",
            "pass@8",
            "keep",
            "(null)",
            "explore",
            "(null)",
            "styles",
        ]
    )
    assert lines[2].split() == [
        "dev",
        "3",
        "-",
        "50.0",
        "[40,",
        "60]",
        "50.0",
        "75.0",
        "90.0",
        "(95.0)",
        "-",
        "(-)",
        "2.2",
    ]


def test_shares_are_per_cent_and_unknowns_are_dashes():
    assert percent(0.694, (0.6, 0.75)) == "69.4 [60, 75]"
    assert percent(None) == number(None) == "-"


@pytest.fixture
def trained(dph, example, tmp_path):
    run = tmp_path / "run"
    assert dph("train", example, "--out", run, "--set", "method=grpo")[0] == 0
    return run


def test_the_newest_checkpoint_is_evaluated(dph, example, trained):
    code, out, _ = dph("evaluate", example, "--out", trained, "--set", "method=grpo", "--json")
    content = json.loads(out)
    assert code == 0
    assert content["schema"] == 1
    assert content["sets"]["train"]["problems"] == 12
    assert json.loads((trained / "evaluation.json").read_text()) == content
    assert (trained / "samples.parquet").is_file()


def test_the_initial_policy_is_measured_beside_the_run(dph, example, tmp_path):
    words = ("evaluate", example, "--model", example.parent / "model", "--out", tmp_path / "run")
    code, out, _ = dph(*words)
    assert code == 0
    assert "pass@8" in out
    assert (tmp_path / "run" / "base" / "evaluation.json").is_file()
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_any_other_model_gets_a_place_of_its_own(dph, example, tmp_path):
    shutil.copytree(example.parent / "model", tmp_path / "other")
    words = ("evaluate", example, "--model", "other", "--out", tmp_path / "run", "--json")
    code, out, _ = dph(*words)
    place = tmp_path / "run" / "models" / "other"
    assert code == 0
    assert json.loads((place / "evaluation.json").read_text()) == json.loads(out)
