"""The quickstart's effect inside TRL."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "trl_quickstart.py"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
MOST_SECONDS = 900


def command(out, models):
    words = [sys.executable, SCRIPT, "--out", out, "--models", models]
    return [str(word) for word in words]


def start(out, models):
    return subprocess.Popen(command(out, models), env=ONE_THREAD, stdout=subprocess.PIPE, text=True)


def line_of(process):
    output, _ = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == 0
    return json.loads(output.splitlines()[-1])


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """World, base model and pool, as `dph quickstart` leaves them."""
    out = tmp_path_factory.mktemp("trl") / "quickstart"
    subprocess.run(command(out, models=""), env=ONE_THREAD, check=True, timeout=MOST_SECONDS)
    return out


@pytest.mark.slow
def test_forty_rollouts_keep_the_styles_that_plain_grpo_drops(quickstart):
    both = [start(quickstart, models=name) for name in ("dph", "grpo")]
    try:
        lines = {line["trainer"]: line for line in map(line_of, both)}
    finally:
        for process in both:
            process.kill()
    print("", *map(json.dumps, lines.values()), sep="\n")  # noqa: T201  # shown by pytest -s
    assert lines["dph"]["effective_styles"] >= 4.5
    assert lines["grpo"]["effective_styles"] < 3.5
