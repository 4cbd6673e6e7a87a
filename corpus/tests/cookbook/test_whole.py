"""A whole cookbook, tiny: from SQL files to Pass@k after RL, killed on the way, twice the same."""

import json
import time
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs dph-corpus[sft]")
pytestmark = pytest.mark.slow

TOML = Path(__file__).with_name("tiny.toml")
PROGRAM = "import sys; from dph_corpus.cli import main; sys.exit(main())"
AFTER = (
    "base/checkpoints/checkpoint-2/whole",
    "sft/only/checkpoints/checkpoint-2/whole",
    "rl/base/base",
)
"""What is there when the run is killed, each time."""


@pytest.fixture(scope="module")
def begin(fork_program, tmp_path_factory):
    """``begin(name)``: the program that makes the cookbook in ``begin.place / name``."""
    place = tmp_path_factory.mktemp("cookbook")
    text = TOML.read_text().replace("MODULES", str(Path(__file__).parents[3] / "tests"))
    (place / "cookbook.toml").write_text(text.replace("ROOT", str(Path(__file__).parents[3])))

    def start(name):
        words = ("run", place / "cookbook.toml", "--out", place / name)
        return fork_program(PROGRAM, *words, "--workers", 1, "--json")

    start.place = place
    return start


def finish(program):
    with program:
        code, made, said = program.finish()
    assert code == 0, said
    return json.loads(made)


@pytest.fixture(scope="module")
def whole(begin):
    """Its digests where nobody killed it."""
    return finish(begin("whole"))


def shows_pass_at_k(directory):
    report = (directory / "report.md").read_text()
    names = ("base", "only", "grpo", "dph_f")
    return "## Pass@k on in_domain" in report and all(f"\n| {n} |" in report for n in names)


def test_it_goes_from_files_to_pass_at_k_after_rl(begin, whole):
    stages = {"world", "ingest", "decontaminate", "base", "sft", "evaluate", "pool", "rl"}
    assert stages <= set(whole)
    scores = json.loads((begin.place / "whole" / "scores.json").read_text())
    assert list(scores["models"]) == ["base", "only", "grpo", "dph_f"]
    assert scores["model_seed"] == 3
    assert "torch" in scores["computed_by"]
    assert shows_pass_at_k(begin.place / "whole")


def test_killed_three_times_it_ends_with_the_digests_of_a_run_that_was_not(begin, whole):
    for place in AFTER:
        with begin("killed") as killed:
            while not (begin.place / "killed" / place).exists():
                assert killed.poll() is None, killed.finish()
                time.sleep(0.02)
            killed.kill()
    assert finish(begin("killed")) == whole
    scores = [(begin.place / run / "scores.json").read_text() for run in ("whole", "killed")]
    assert json.loads(scores[0]) == json.loads(scores[1])
    assert shows_pass_at_k(begin.place / "killed")
