"""The examples of CONTRIBUTING, written into a copy of the package: nothing else has to change."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPE = """
name = "added"
model.path = "model"
data.train = "problems.jsonl"
"""


def example(name):
    """The code that CONTRIBUTING shows under a mark."""
    found = re.search(rf"<!-- example: {name} -->\n *```python\n(.*?) *```", TEXT, re.DOTALL)
    return textwrap.dedent(found[1])


class Copy:
    def __init__(self, place):
        self.place = place
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / "dph", place / "src" / "dph", ignore=ignored)
        shutil.copytree(ROOT / "recipes", place / "recipes", ignore=ignored)
        for name in ("docs/methods.md", "docs/guides/grading.md"):
            (place / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, place / name)
        (place / "recipe.toml").write_text(RECIPE)
        (place / "problems.jsonl").write_text(
            '{"problem_id": "p", "prompt": "?", "answer": "abcdef"}\n'
        )

    def write(self, file, text):
        path = self.place / "src" / "dph" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def add_row(self, file, table, row):
        path = self.place / "src" / "dph" / file
        before, name, rest = path.read_text(encoding="utf-8").partition(f"\n{table}: ")
        inside, end, after = rest.partition("\n    }\n)\n")
        text = before + name + inside + "\n" + textwrap.indent(row, " " * 8).rstrip() + end + after
        path.write_text(text, encoding="utf-8")

    def changed(self):
        files = {
            path.relative_to(self.place / "src" / "dph")
            for path in (self.place / "src" / "dph").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        there = ROOT / "src" / "dph"
        return {
            str(file)
            for file in files
            if not (there / file).exists()
            or (there / file).read_bytes() != (self.place / "src" / "dph" / file).read_bytes()
        }

    def python(self, *words, code=0):
        """What Python prints with the copy in the place of the package."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.place,
            env=os.environ | {"PYTHONPATH": str(self.place / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def dph(self, *words, code=0):
        return self.python("-m", "dph", *words, code=code)

    def answer(self, program):
        return json.loads(self.python("-c", textwrap.dedent(program)).splitlines()[-1])

    def lines(self, page, about):
        """The cells of the lines of a page about something, after ``make tables``."""
        script = str(ROOT / "lab" / "benchmarks" / "written_tables.py")
        self.python(script, "--root", str(self.place))
        text = (self.place / "docs" / page).read_text(encoding="utf-8")
        found = [line for line in text.splitlines() if line.startswith(f"| `{about}` |")]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in found]


@pytest.fixture(scope="module")
def method(tmp_path_factory):
    copy = Copy(tmp_path_factory.mktemp("method"))
    copy.write("loss/objectives/advantages/relative.py", example("method"))
    copy.add_row("recipe/terms.py", "ADVANTAGES", example("method row"))
    return copy


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    copy = Copy(tmp_path_factory.mktemp("verifier"))
    copy.write("tasks/verifiers/initials/__init__.py", '"""The verifier ``initials``."""\n')
    copy.write("tasks/verifiers/initials/verifier.py", example("verifier"))
    copy.add_row("tasks/verifiers/table.py", "VERIFIERS", example("verifier row"))
    return copy


def test_a_method_is_one_file_and_one_row_which_a_recipe_names_and_sets(method):
    assert method.changed() == {"loss/objectives/advantages/relative.py", "recipe/terms.py"}
    shown = method.dph("recipe", "show", "recipe.toml", "--set", "method=relative")
    assert re.search(r"objective\.advantage\.power = 1\.0", shown)
    words = ["--set", "method=relative", "--set", "objective.advantage.power=-1"]
    wrong = method.dph("recipe", "show", "recipe.toml", *words, code=2)
    assert "objective.advantage.power" in wrong
    assert "greater than or equal to 0, got -1" in wrong
    method.dph("recipe", "show", "recipe.toml", *words[:2], "--set", "train.engine=verl")
    (line,) = method.lines("methods.md", "relative")
    formula = "A = (r - mean) / mean^power, 0 where mean = 0"
    said = [formula, "`objective.advantage.power`", "arXiv:0000.00000"]
    assert line[1:] == [*said, "-", "-", "all", "rare successes", "not measured"]


@pytest.mark.slow
def test_the_method_computes_its_formula_and_reports_know_it(method):
    found = method.answer(
        """
        import json
        import torch
        from dph.runs.objective import make_objective
        from dph.recipe import STRENGTHS, resolve_recipe
        from dph.results.vocabulary import method_label
        table = {"model": {"path": "m"}, "data": {"train": "t"}, "method": "relative"}
        recipe = resolve_recipe(table)
        rewards = torch.tensor([[1.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]])
        advantages = make_objective(recipe.objective).advantage(rewards).tolist()
        label = method_label("relative@0.5")
        said = [label, STRENGTHS["relative"]]
        print(json.dumps([advantages, *said]))
        """
    )
    advantages = [[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    strength = "objective.advantage.power"
    assert found == [advantages, "Relative 0.5", strength]


def test_a_verifier_is_one_folder_and_one_row_which_a_recipe_names_and_sets(verifier):
    folder = "tasks/verifiers/initials"
    files = {f"{folder}/__init__.py", f"{folder}/verifier.py"}
    assert verifier.changed() == {*files, "tasks/verifiers/table.py"}
    words = ["recipe", "check", "recipe.toml", "--set", "data.verifier=initials"]
    assert "data.verifier" not in verifier.dph(*words, code=2)  # there is no model, and all else is
    wrong = verifier.dph(*words, "--set", "data.initials_letters=0", code=2)
    assert "data.initials_letters: Input should be greater than or equal to 1, got 0" in wrong
    words = ["--set", "data.verifier=initials", "--set", "data.initials_letters=2"]
    more = ["--set", "method=grpo", "--set", "train.engine=verl"]
    said = verifier.dph("recipe", "show", "recipe.toml", *words, *more, code=2)
    assert "data.initials_letters = 2 is not possible with train.engine = 'verl'" in said
    (line,) = verifier.lines("guides/grading.md", "initials")
    settings, verb = "`data.initials_letters` [3]", "`dph grade --verifier initials`"
    assert line[1:] == ["the first letters of the response", settings, verb, "yes"]


def test_a_file_is_graded_by_the_verifier_and_its_setting_is_an_option(verifier):
    shown = " ".join(verifier.dph("grade", "--help").split())
    assert "--initials-letters N Letters that count (initials)." in shown
    rows = [{"answer": "abcdef", "response": text} for text in ("abcxyz", "abxyz", "xyz")]
    (verifier.place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["grade", "--input", "rows.jsonl", "--verifier", "initials", "--out"]
    for name, more, right in (("a", [], 1), ("b", ["--initials-letters", "2"], 2)):
        verifier.dph(*words, f"{name}.jsonl", *more)
        graded = (verifier.place / f"{name}.jsonl").read_text().splitlines()
        assert sum(json.loads(row)["reward"] for row in graded) == right
