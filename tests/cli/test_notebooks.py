"""The notebooks of examples/: every cell runs, in a process of its own and without a kernel."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from report_runs import make_runs

TESTS = Path(__file__).parents[1]
NOTEBOOKS = sorted((TESTS.parent / "examples/notebooks").glob("*.ipynb"))


def run_notebook(name, directory):
    """What the cells print, in ``directory``."""
    (path,) = [each for each in NOTEBOOKS if each.stem == name]
    done = subprocess.run(
        [sys.executable, TESTS / "run_notebook.py", path],
        cwd=directory,
        env={**os.environ, "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_run_is_looked_at(tmp_path):
    make_runs(tmp_path / "quickstart")
    shown = run_notebook("look_at_a_run", tmp_path)
    assert "<strong>grpo: first try" in shown
    assert "in_domain-0000" in shown  # the problem that GRPO lost
    assert (tmp_path / "report.html").is_file()


@pytest.mark.slow
def test_a_method_of_ones_own_is_trained_and_compared(tmp_path, example):
    recipes = tmp_path / "quickstart/recipes"
    shutil.copytree(example.parent, recipes)
    (recipes / "grpo.toml").write_text(example.read_text().replace('"dph_f"', '"grpo"'))
    shown = run_notebook("own_method", tmp_path)
    assert "7.0000" in shown  # the one right answer of eight: (1 - 1/8) / (1/8)
    assert "runs/rare" in shown
    assert 'kind = "rare:rare"' in (tmp_path / "runs/rare/recipe.toml").read_text()


def test_a_file_is_graded(tmp_path):
    shown = run_notebook("grade_a_file", tmp_path)
    (counts,) = [part for part in shown.split("-- shown") if "pass@2" in part]
    # 2 of 3 right: any two have a right one; rule bird takes the repeated row of "names" too.
    assert counts.count("<td>1.0</td>") == 2
    assert counts.count("<td>0.666667</td>") == 2
    assert "[<Outcome.CORRECT: 'CORRECT'>, <Outcome.WRONG: 'WRONG'>]" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["cells"][0]["cell_type"]) == (4, "markdown")
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
