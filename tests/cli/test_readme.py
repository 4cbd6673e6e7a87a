"""What the README shows is what happens."""

import doctest
import json
import re
import shutil
from pathlib import Path

import pytest

from lab.worlds.sql.base_model import train_base_model
from lab.worlds.sql.world import build_world

README = Path(__file__).parents[2] / "README.md"
INDEX = README.parent / "docs" / "index.md"


def block(language, containing="", page=README):
    """The first fenced block of a language that contains a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
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


@pytest.fixture(scope="module")
def base_model(tmp_path_factory):
    """The quickstart's base model and world."""
    directory = tmp_path_factory.mktemp("quickstart")
    world = build_world(directory / "world", seed=0)
    train_base_model(world, directory / "base_model", seed=0)
    return directory / "base_model"


@pytest.mark.slow
def test_your_own_task_finishes_on_the_base_model_of_the_quickstart(dph, own_task, base_model):
    shutil.rmtree(own_task / "model")
    (own_task / "model").symlink_to(base_model)  # as the README links it
    commands = [line for line in block("sh", "recipe check").splitlines() if line.startswith("dph")]
    for line in commands:
        code, out, err = dph(*line.partition("#")[0].split()[1:])
        assert code == 0, f"{line}\n{err}"
    assert [line.split()[1] for line in commands] == ["recipe", "run", "compare"]
    assert "dev" in out
    assert "baseline" in out


@pytest.mark.slow
def test_the_recipe_of_the_repository_finishes_on_it_too(dph, example, base_model):
    code, out, err = dph("run", example, "--set", f"model.path={base_model}", "--json")
    assert code == 0, err
    pool = json.loads(out)["pool"]
    assert pool["rehearsal"] >= 1
    assert pool["exploration"] >= 2


SMALL = ["steps=1", "problems_per_step=2", "samples_per_problem=2", "rehearsal_per_step=2"]


def test_your_own_task_runs_as_shown(dph, own_task):
    assert dph("recipe", "check", "recipe.toml")[0] == 0
    words = [word for setting in SMALL for word in ("--set", f"train.{setting}")]
    words += ["--set", "sampling.max_tokens=4", "--set", "evaluate.samples=16"]
    code, out, err = dph("run", "recipe.toml", "--out", "run", *words)
    assert code == 0, err
    assert "dev" in out
    assert (own_task / "run" / "evaluation.json").is_file()
    assert dph("compare", "run")[0] == 0


def test_the_library_example_prints_what_it_says():
    example = doctest.DocTestParser().get_doctest(
        block("python", ">>>", INDEX), {}, "index", str(INDEX), 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example).failed == 0


def test_the_first_command_stands_at_the_top_and_the_front_door_is_short():
    text = README.read_text(encoding="utf-8")
    before, _, _ = text.partition("## Does it work?")
    assert text.splitlines().index("```sh") + 2 <= 15
    assert len(before.split()) <= 700


def test_every_file_the_readme_points_to_is_there():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text(encoding="utf-8"))
    links += re.findall(r"`(src/[^`]+)`", README.read_text(encoding="utf-8"))
    missing = [link for link in links if not (README.parent / link).exists()]
    assert missing == []
