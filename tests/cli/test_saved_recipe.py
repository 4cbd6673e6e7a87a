"""The recipe that a run saves is as good as the one it was made from, from every directory."""

import json

import pytest

SMALL = ["method=grpo", "train.steps=1", "train.problems_per_step=2", "evaluate.samples=2"]
WORDS = [word for setting in SMALL for word in ("--set", setting)]
ALWAYS_WRONG = "def grade(response, problem):\n    return False\n"


@pytest.fixture
def run(dph, example, tmp_path):
    (example.parent / "verifier.py").write_text("def grade(response, problem):\n    return True\n")
    (example.parent / "ways.py").write_text("def style(response):\n    return 'mine'\n")
    words = ("run", example, "--out", tmp_path / "run", *WORDS, "--set", "data.styles=ways:style")
    assert dph(*words)[0] == 0
    return tmp_path / "run"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A working directory with other modules of the same names."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    (directory / "verifier.py").write_text(ALWAYS_WRONG)
    (directory / "ways.py").write_text("def style(response):\n    return 'other'\n")
    monkeypatch.chdir(directory)
    return directory


def set_of(text):
    return json.loads(text)["sets"]["train"]


def test_the_saved_recipe_finds_its_own_verifier_from_anywhere(dph, run, elsewhere):
    before = (run / "samples.parquet").read_bytes()
    (run / "verifier.py").write_text(ALWAYS_WRONG)
    code, out, err = dph("evaluate", run / "recipe.toml", "--out", run, "--json")
    assert code == 0, err
    assert set_of(out)["mean"] == 1.0
    assert set_of(out)["styles"] == {"mine": 1.0}
    assert (run / "samples.parquet").read_bytes() == before  # nothing was drawn or graded again
    assert dph("train", run / "recipe.toml", "--out", run)[0] == 0
    assert dph("run", run / "recipe.toml", "--out", elsewhere / "again")[0] == 0


def test_a_recipe_of_another_directory_finds_the_verifier_beside_it_first(dph, example, elsewhere):
    (example.parent / "verifier.py").write_text("def grade(response, problem):\n    return True\n")
    words = ("run", example, "--out", "run", *WORDS, "--json")
    code, out, err = dph(*words)
    assert code == 0, err
    assert json.loads(out)["evaluation"]["sets"]["train"]["mean"] == 1.0
    assert str(example.parent) in (elsewhere / "run" / "recipe.toml").read_text()


def test_without_its_verifier_the_saved_recipe_takes_no_other(dph, run, example, elsewhere):
    assert (elsewhere / "verifier.py").exists()
    (example.parent / "verifier.py").unlink()
    code, out, err = dph("evaluate", run / "recipe.toml", "--out", run)
    assert (code, out) == (2, "")
    assert "cannot import 'verifier'" in err
