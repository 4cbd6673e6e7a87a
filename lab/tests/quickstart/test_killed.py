"""A quickstart killed in each stage and started again ends as one left alone."""

import json
from pathlib import Path

import pytest

CHILD = """
import json
import sys
from contextlib import contextmanager
from pathlib import Path

from lab.quickstart.recipes import Size
from lab.quickstart.run import quickstart
from lab.worlds.sql.kind import SQLWorldSizes

class Lines:
    @contextmanager
    def task(self, title, total, unit):
        done = 0
        def advance(amount, note):
            nonlocal done
            done += amount
            print(f"{title}|{done}", flush=True)
        print(f"{title}|0", flush=True)
        yield advance

    def say(self, text):
        pass

asked = json.loads(sys.argv[2])
size = Size(world=SQLWorldSizes(**asked["world"]), steps=4, checkpoint_every=2, **asked["size"])
quickstart(Path(sys.argv[1]), methods=asked["methods"], seed=7, progress=Lines(), size=size)
"""
WHOLE = {
    "methods": ["grpo", "dph_f"],
    "world": {"train": 48, "in_domain": 8, "cross_domain": 8, "arithmetic": 8},
    "size": {"base_steps": 140, "threshold": 1, "problems_per_step": 4, "samples": 16},
}
SHORT = {
    "methods": ["grpo"],
    "world": {"train": 12, "in_domain": 3, "cross_domain": 3, "arithmetic": 3},
    "size": {"base_steps": 1, "problems_per_step": 2, "samples": 16},
}

KILLS = [
    ("base model", 5),
    ("pre-sampling", 100),
    ("evaluating base", 20),
    ("training grpo", 3),
    ("evaluating grpo", 20),
    ("training dph_f", 1),
    ("evaluating dph_f", 20),
]


def kill_at(program, stage, amount):
    """Send SIGKILL as soon as ``stage`` has come to ``amount``."""
    with program:
        for line in program.lines():
            title, done = line.split("|")
            if title == stage and int(done) >= amount:
                program.kill()
                return
    raise AssertionError(f"{stage} never came to {amount}")


def finish(program, directory):
    with program:
        code, _, said = program.finish()
    assert code == 0, said
    return json.loads((directory / "summary.json").read_text())


def without_seconds(content):
    """A summary less what a clock said, at every depth."""
    if not isinstance(content, dict):
        return content
    return {key: without_seconds(value) for key, value in content.items() if key != "seconds"}


def final_weights(directory: Path, method):
    return (directory / method / "checkpoints/step_000004/model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("asked", "kills"),
    [(SHORT, [("training grpo", 3)]), pytest.param(WHOLE, KILLS, marks=pytest.mark.slow)],
    ids=["while it trains", "in every stage"],
)
def test_killed_it_ends_with_the_same_metrics_and_bit_identical_weights(
    asked, kills, fork_program, tmp_path
):
    def start(name):
        return fork_program(CHILD, tmp_path / name, json.dumps(asked))

    whole = finish(start("whole"), tmp_path / "whole")
    for stage, amount in kills:
        kill_at(start("killed"), stage, amount)
        assert not (tmp_path / "killed" / "summary.json").exists()
    killed = finish(start("killed"), tmp_path / "killed")
    assert without_seconds(killed) == without_seconds(whole)
    for method in asked["methods"]:
        assert final_weights(tmp_path / "killed", method) == final_weights(
            tmp_path / "whole", method
        )
    pools = [
        {file.name: file.read_bytes() for file in (tmp_path / name / "pool").glob("*")}
        for name in ("whole", "killed")
    ]
    assert pools[0]
    assert pools[0].keys() == pools[1].keys()
    for name in pools[0]:
        if name != "manifest.json":  # holds the path of the model
            assert pools[0][name] == pools[1][name]
