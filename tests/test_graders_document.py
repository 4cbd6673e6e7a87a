"""docs/guides/grading.md: its examples are run and its numbers compared."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[1] / "docs" / "guides" / "grading.md"
RULES = ("spider", "bird", "strict", "bird_soft_f1", "cartesian")


def example(name):
    found = re.search(
        rf"<!-- example: {name} -->\n```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
    return found[1]


@pytest.fixture
def shell(tmp_path):
    """Run a script where ``dph`` is this package's."""
    command = tmp_path / "bin" / "dph"
    command.parent.mkdir()
    command.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c "
        "'import sys; from dph.cli import main; sys.exit(main())' \"$@\"\n"
    )
    command.chmod(0o755)
    source = str(Path(__file__).parents[1] / "src")

    def run(script):
        env = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": source}
        return subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def table_after(mark):
    """The numbers of the table that follows a mark, row by row."""
    text = DOCUMENT.read_text().partition(mark)[2].lstrip("\n")
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[float(cell) for cell in line.strip("|").split("|")[1:]] for line in lines]


def test_the_rewards_of_the_sql_example(shell, tmp_path):
    by_rule = []
    for rule in RULES:
        shell(example("sql").replace("--rule strict", f"--rule {rule}"))
        rows = (tmp_path / "graded.jsonl").read_text().splitlines()
        by_rule.append([round(json.loads(row)["reward"], 2) for row in rows])
        for path in (tmp_path / "graded.jsonl", tmp_path / "databases" / "pets" / "pets.sqlite"):
            path.unlink()
    assert table_after("<!-- rewards: sql -->") == [list(row) for row in zip(*by_rule, strict=True)]


def test_the_rewards_of_the_math_example(shell, tmp_path):
    pytest.importorskip("math_verify")
    by_verifier = []
    for verifier in ("math", "math_qwen"):
        shell(example("math").replace("--verifier math ", f"--verifier {verifier} "))
        rows = (tmp_path / "graded.jsonl").read_text().splitlines()
        by_verifier.append([json.loads(row)["reward"] for row in rows])
        (tmp_path / "graded.jsonl").unlink()
    expected = [list(row) for row in zip(*by_verifier, strict=True)]
    assert table_after("<!-- rewards: math -->") == expected


def test_the_outcomes_of_the_code_example(shell, tmp_path):
    shell(example("code"))
    rows = (tmp_path / "graded-code.jsonl").read_text().splitlines()
    outcomes = [json.loads(row)["outcome"] for row in rows]
    said = re.search(r"The outcomes are (.*)\.\n", DOCUMENT.read_text())[1]
    assert outcomes == re.split(r", | and ", said)


def test_the_example_of_a_verifier_of_ones_own(shell, tmp_path):
    assert "mean reward 0.5000" in shell(example("own"))
    with (tmp_path / "graded-own.csv").open(newline="") as file:
        assert [row["outcome"] for row in csv.DictReader(file)] == ["CORRECT", "WRONG"]


def test_the_passk_example(shell):
    out = shell(example("passk"))
    # a: 2 of 2, b: 1 of 2; against 1 of 2 and 0 of 2.
    assert "75.0 [50.0, 100.0]" in out
    assert "+50.0 [-76.3, +92.1]" in out  # both gain a half: the exact interval of two problems
    # Only a is solved by the first sample of the base; its later one is wrong.
    assert re.search(r"keep +100\.0 +0\.0", out)
    assert re.search(r"explore +0\.0 +0\.0", out)
