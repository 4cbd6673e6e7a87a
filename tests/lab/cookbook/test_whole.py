"""A whole cookbook, tiny: from SQL files to Pass@k after RL, killed on the way, twice the same."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs dph-rl[sft]")
pytestmark = pytest.mark.slow

TOML = """
name = "tiny"
seed = 3

[world]
sizes = { train = 16, in_domain = 8, cross_domain = 1, arithmetic = 1, unlabelled = 1 }
files = 30
queries_per_file = 4
questions = 40
answers = 2

[corpora.sql]
inputs = ["world:sql"]
filter = "sql"

[mixtures.pretraining]
budget = 10000
shares = { sql = 1 }

[mixtures.annealing]
budget = 3000
shares = { sql = 1 }

[instruct.only]
parts = { annotators = "world:annotators" }
rows = { annotators = 40 }
checks = ["prompt"]

[base]
tokenizer = { vocabulary = 300 }
model = { width = 16, inner = 32, layers = 1, heads = 2 }
device = { device = "cpu", threads = 1 }
[base.train]
steps = 4
warmup_steps = 1
annealing_steps = 2
context = 256
sequences_per_step = 1
checkpoint_every = 2

[sft]
device = { device = "cpu", threads = 1 }
[[sft.stages]]
name = "only"
epochs = 3
learning_rate = 1e-2
max_tokens = 256
sequences_per_step = 2
warmup_steps = 1
checkpoint_every = 2

[rl]
steps = 2
problems_per_step = 2
samples = 2
max_tokens = 24
checkpoint_every = 1

[rl.settings]
data = { verifier = "length_grader:grade", modules = ["MODULES"] }
presample = { samples = 4, threshold = 1 }
"""
AFTER = (
    "base/checkpoints/checkpoint-2/whole",
    "sft/only/checkpoints/checkpoint-2/whole",
    "rl/base",
)
"""What is there when the run is killed, each time."""


def begin(tmp_path, name):
    search = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-m", "dph", "corpus", "run", f"{tmp_path}/cookbook.toml"]
    return subprocess.Popen(
        [*command, "--out", f"{tmp_path}/{name}", "--workers", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": search, "HF_HUB_OFFLINE": "1"},
        text=True,
    )


def test_killed_three_times_it_ends_with_the_digests_of_a_run_that_was_not(tmp_path):
    text = TOML.replace("MODULES", str(Path(__file__).parents[2]))
    (tmp_path / "cookbook.toml").write_text(text)
    whole = begin(tmp_path, "whole")
    made, said = whole.communicate()
    assert whole.returncode == 0, said
    for place in AFTER:
        killed = begin(tmp_path, "killed")
        while not (tmp_path / "killed" / place).exists():
            assert killed.poll() is None, killed.communicate()
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    again = begin(tmp_path, "killed")
    found, said = again.communicate()
    assert again.returncode == 0, said
    assert json.loads(found) == json.loads(made)
    stages = {"world", "ingest", "decontaminate", "base", "sft", "evaluate", "pool", "rl"}
    assert stages <= set(json.loads(made))
    scores = json.loads((tmp_path / "killed" / "scores.json").read_text())
    assert scores == json.loads((tmp_path / "whole" / "scores.json").read_text())
    assert list(scores["models"]) == ["base", "only", "grpo", "dph_f"]
    assert scores["model_seed"] == 3
    assert "torch" in scores["computed_by"]
    report = Path(tmp_path / "killed" / "report.md").read_text()
    assert "## Pass@k on in_domain" in report
    for model in ("base", "only", "grpo", "dph_f"):
        assert f"\n| {model} |" in report
