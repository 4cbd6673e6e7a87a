"""The quickstart's effect inside TRL: rehearsal keeps the styles that plain GRPO drops."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "trl_quickstart.py"


def start(out, models):
    command = [sys.executable, str(SCRIPT), "--out", str(out), "--steps", "40"]
    return subprocess.Popen([*command, "--models", models], stdout=subprocess.PIPE, text=True)


def line_of(process):
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_forty_steps_keep_the_styles_that_plain_grpo_drops(tmp_path):
    assert start(tmp_path, models="").wait(timeout=900) == 0  # world, base model and pool
    both = [start(tmp_path, models=name) for name in ("dph", "grpo")]
    lines = {line["trainer"]: line for line in map(line_of, both)}
    print("\n".join(json.dumps(line) for line in lines.values()))  # noqa: T201
    assert lines["dph"]["effective_styles"] >= 3.5
    assert lines["grpo"]["effective_styles"] < 2
