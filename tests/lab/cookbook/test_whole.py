"""A whole cookbook, tiny: from SQL files to Pass@k after RL, killed on the way, twice the same."""

import json
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
PROGRAM = "import sys; from dph.cli import main; sys.exit(main())"
AFTER = (
    "base/checkpoints/checkpoint-2/whole",
    "sft/only/checkpoints/checkpoint-2/whole",
    "rl/base",
)
"""What is there when the run is killed, each time."""


def test_killed_three_times_it_ends_with_the_digests_of_a_run_that_was_not(fork_program, tmp_path):
    text = TOML.replace("MODULES", str(Path(__file__).parents[2]))
    (tmp_path / "cookbook.toml").write_text(text)

    def begin(name):
        words = ("corpus", "run", tmp_path / "cookbook.toml", "--out", tmp_path / name)
        return fork_program(PROGRAM, *words, "--workers", 1, "--json")

    with begin("whole") as whole:
        code, made, said = whole.finish()
    assert code == 0, said
    for place in AFTER:
        with begin("killed") as killed:
            while not (tmp_path / "killed" / place).exists():
                assert killed.poll() is None, killed.finish()
                time.sleep(0.02)
            killed.kill()
    with begin("killed") as again:
        code, found, said = again.finish()
    assert code == 0, said
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
