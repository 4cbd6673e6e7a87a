"""The script of the documentation, on the folder that a quickstart leaves."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorials" / "trl.md"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(place, *words):
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=place,
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_script_of_the_documentation_rehearses(tmp_path):
    run(tmp_path, "-m", "dph", "quickstart", "--tiny", "--methods", "dph_f")
    block = re.search(r"<!-- example: trl diff -->\n```diff\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = re.sub("(?m)^-.*\n", "", block[1])
    script = re.sub("(?m)^[ +]", "", script).replace("max_steps=20", "max_steps=1")
    assert "max_steps=1," in script
    assert "rehearsal/loss" in run(tmp_path, "-c", script)
    assert (tmp_path / "trl-run" / "model.safetensors").is_file()
