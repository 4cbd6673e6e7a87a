"""The agent of examples/agent_loop.py runs."""

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
