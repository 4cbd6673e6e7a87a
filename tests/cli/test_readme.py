"""What the README shows is what happens: its commands are read out of the file and run."""

import doctest
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
INDEX = ROOT / "docs" / "index.md"


def blocks(language, page=README):
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands(program):
    """The README's commands of a program, as words."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith(program)]


@pytest.fixture
def own_task(tmp_path, example, monkeypatch):
    """The README's recipe with problems, and files to grade."""
    directory = tmp_path / "own"
    directory.mkdir()
    problems = (example.parent / "problems.jsonl").read_text()
    (shown,) = map(json.loads, blocks("json"))
    assert json.loads(problems.splitlines()[0]).keys() == shown.keys()
    again = problems.replace('"problem_id": "', '"problem_id": "again-')
    for name, rows in (("train", problems + again), ("test", problems)):
        (directory / f"{name}.jsonl").write_text(rows)
    (directory / "recipe.toml").write_text(blocks("toml")[0])
    (directory / "reward.py").write_text("def reward(response, problem):\n    return 1.0\n")
    for name, given in {
        "answers": {"response": "3"},
        "trained": {"reward": 1},
        "base": {"reward": 0},
    }.items():
        row = json.dumps({"problem_id": "a", **given}) + "\n"
        (directory / f"{name}.jsonl").write_text(row * 2)
    monkeypatch.chdir(directory)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return directory


@pytest.mark.slow
def test_every_command_of_the_package_runs(dph, own_task, speller):
    found = commands("dph ")
    verbs = ["run", "compare", "report", "recipe", "run", "presample", "run", "report", "grade"]
    assert [words[0] for words in found] == verbs
    code, checked, err = dph(*found[3])
    assert code == 0, err
    assert "a run would fetch the model" in checked
    recipe = own_task / "recipe.toml"
    text = recipe.read_text()
    model = own_task / re.search(r'model\.path = "(.*?)"', text)[1]
    shutil.copytree(speller, model)  # a directory of its name comes before the Hub
    (model / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    size = "steps = 100, problems_per_step = 8, rehearsal_per_step = 8"
    small = "steps = 1, problems_per_step = 2, samples_per_problem = 2, rehearsal_per_step = 2"
    assert size in text
    text = text.replace(size, small).replace("max_tokens = 256", "max_tokens = 4")
    recipe.write_text(text + "evaluate.samples = 16\n")
    found[0] += ["--set", "train.steps=1", "--set", "sampling.max_tokens=4"]
    for words in found:
        code, out, err = dph(*words)
        # The audit of a reward that is the same for every answer has findings.
        assert code == (words[0] == "grade"), f"{words}\n{out}\n{err}"
    assert (own_task / "report.html").is_file()


def test_every_target_of_make_exists():
    targets = {words[0] for words in commands("make ")}
    assert {"quickstart", "test"} <= targets
    for target in targets:
        done = subprocess.run(
            ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_library_example_prints_what_it_says():
    (block,) = [each for each in blocks("python", INDEX) if ">>>" in each]
    example = doctest.DocTestParser().get_doctest(block, {}, "index", str(INDEX), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example).failed == 0


def test_the_front_door_is_short_and_begins_with_a_picture_and_two_commands():
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= 700
    assert text.index("![") < text.index("make quickstart") < text.index("make test") < 1200


def test_the_table_is_that_of_the_study():
    study = (ROOT / "lab/studies/countdown/README.md").read_text(encoding="utf-8")
    shown, scores = (
        {row[0]: dict(zip(head, row, strict=True)) for row in rows}
        for head, _, *rows in map(
            cells, (README.read_text("utf-8"), study.partition("**Scores")[2])
        )
    )
    assert list(shown) == ["base", "GRPO", "DPH-F", "RKL"]
    for method, row in shown.items():
        assert row.items() <= scores[method].items()


def cells(text):
    """The rows of a text's first table."""
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
