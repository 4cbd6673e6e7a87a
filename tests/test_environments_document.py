"""docs/howto/environments.md, word by word: its class and its agent run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from scripted_policy import byte_tokenizer

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/howto/environments.md").read_text("utf-8")
LONGEST = 66


def example(name):
    (found,) = re.findall(rf"<!-- example: {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    return found


@pytest.fixture
def model(tmp_path):
    """A model that says bytes at random, with a chat template that shows tools."""
    tokenizer = byte_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    directory = tmp_path / "model"
    LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def test_the_agent_is_as_short_as_the_page_says():
    lines = [line for line in (example("class") + example("agent")).splitlines() if line.strip()]
    assert len(lines) <= LONGEST
    assert f"{LONGEST} lines" in PAGE


def test_the_class_and_the_agent_run_word_by_word(model, tmp_path):
    (tmp_path / "counter.py").write_text(example("class"), encoding="utf-8")
    (tmp_path / "agent.py").write_text(example("agent"), encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "agent.py", str(model)],
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
