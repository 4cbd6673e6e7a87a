"""The script of docs/tutorials/trl.md trains in TRL on what the page's commands leave."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs/tutorials/trl.md"


def lines_of(language):
    """The lines of the page's first block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return found[1].splitlines()


@pytest.mark.slow
def test_the_script_rehearses(tmp_path):
    script = "\n".join(line[1:] for line in lines_of("diff") if line[0] in " +")
    script = script.replace("max_steps=20", "max_steps=1")
    commands = [line.partition("#")[0].split() for line in lines_of("sh")]
    commands[0].append("--tiny")
    commands = [[sys.executable, "-m", *words] for words in commands]
    for words in [*commands, [sys.executable, "-c", script]]:
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr[-3000:]
    assert "rehearsal/loss" in done.stdout
    assert (tmp_path / "trl-run" / "model.safetensors").is_file()
