"""The agent of examples/agent_loop.py runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripted_policy import byte_tokenizer
from tiny_models import tiny_llama

ROOT = Path(__file__).parents[1]


@pytest.fixture
def model(tmp_path):
    """A model that says bytes at random, with a chat template that shows tools."""
    tokenizer = byte_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    directory = tmp_path / "model"
    sizes = {"intermediate_size": 16, "num_hidden_layers": 1, "max_position_embeddings": 2048}
    tiny_llama(tokenizer, 16, **sizes).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def test_the_agent_takes_three_steps(model, tmp_path):
    found = subprocess.run(
        [sys.executable, str(ROOT / "examples/agent_loop.py"), str(model)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    said = re.findall(r"^step (\d): reward 0\.\d\d, loss -?\d\.\d+$", found.stdout, re.MULTILINE)
    assert said == ["1", "2", "3"], found.stdout
