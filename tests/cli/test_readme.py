"""What the README shows is what happens."""

import doctest
import re
import shutil
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def block(language, containing=""):
    """The first fenced block of a language that contains a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return next(b for b in blocks if containing in b)


@pytest.fixture
def own_task(tmp_path, example, monkeypatch):
    """The README's three files, with the problems of which it shows the first, and a model."""
    directory = tmp_path / "own"
    directory.mkdir()
    problems = (example.parent / "problems.jsonl").read_text()
    assert problems.startswith(block("json"))
    (directory / "problems.jsonl").write_text(problems)
    (directory / "verifier.py").write_text(block("python", "def grade"))
    (directory / "recipe.toml").write_text(block("toml"))
    shutil.copytree(example.parent / "model", directory / "model")
    monkeypatch.chdir(directory)
    return directory


SMALL = ["steps=1", "problems_per_step=2", "samples_per_problem=2", "rehearsal_per_step=2"]


def test_your_own_task_runs_as_shown(dph, own_task):
    assert dph("recipe", "check", "recipe.toml")[0] == 0
    words = [word for setting in SMALL for word in ("--set", f"train.{setting}")]
    words += ["--set", "sampling.max_tokens=4", "--set", "evaluate.samples=16"]
    code, out, err = dph("run", "recipe.toml", "--out", "run", *words)
    assert code == 0, err
    assert "dev" in out
    assert (own_task / "run" / "evaluation.json").is_file()
    assert dph("compare", "run/base", "run")[0] == 0


def test_the_library_example_prints_what_it_says():
    example = doctest.DocTestParser().get_doctest(
        block("python", ">>>"), {}, "README", str(README), 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example).failed == 0


def test_every_file_the_readme_points_to_is_there():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text(encoding="utf-8"))
    links += re.findall(r"`(src/[^`]+)`", README.read_text(encoding="utf-8"))
    missing = [link for link in links if not (README.parent / link).exists()]
    assert missing in ([], ["docs/quickstart.png"])
