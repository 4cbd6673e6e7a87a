import json

import pytest

from dph.errors import SettingsError
from dph.quickstart.run import quickstart
from dph.runs.progress import Silent

CHILD = """
import sys
from contextlib import contextmanager
from pathlib import Path

from dph.quickstart.run import quickstart

class Lines:
    @contextmanager
    def task(self, title, total, unit):
        done = 0
        def advance(amount, note):
            nonlocal done
            done += amount
            print(f"{title}|{done}", flush=True)
        yield advance

    def say(self, text):
        pass

quickstart(Path(sys.argv[1]), methods=["grpo", "dph_f"], seed=7, tiny=True, progress=Lines())
"""
KILLS = (("pre-sampling", 50), ("evaluating base", 50), ("training grpo", 1), ("training dph_f", 1))


def kill_at(program, stage, amount):
    """Send SIGKILL as soon as ``stage`` has come to ``amount``."""
    with program:
        for line in program.lines():
            title, done = line.split("|")
            if title == stage and int(done) >= amount:
                program.kill()
                return
    raise AssertionError(f"{stage} never came to {amount}")


def without_times(summary):
    return {name: value for name, value in summary.items() if name != "cost"}


@pytest.mark.slow
def test_killed_in_each_stage_it_ends_as_one_that_ran_side_by_side(fork_program, tmp_path):
    whole = quickstart(
        tmp_path / "whole", methods=["grpo", "dph_f"], seed=7, tiny=True, jobs=2, progress=Silent()
    )
    killed = tmp_path / "killed"
    for stage, amount in KILLS:
        kill_at(fork_program(CHILD, killed), stage, amount)
        assert not (killed / "summary.json").exists()
    with fork_program(CHILD, killed) as program:
        code, _, said = program.finish()
    assert code == 0, said
    found = json.loads((killed / "summary.json").read_text())
    assert without_times(found) == without_times(json.loads(json.dumps(whole)))
    assert found["words"].startswith("Of the problems that the base model solves within 16")
    for method in ("grpo", "dph_f"):
        weights = f"{method}/checkpoints/step_000002/model.safetensors"
        assert (killed / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()
    assert not list((tmp_path / "whole").glob("*.log"))


@pytest.mark.parametrize("methods", [[], ["grpo", "grpo"], ["grpo", "nothing"]])
def test_methods_that_make_no_sense_leave_nothing(tmp_path, methods):
    with pytest.raises(SettingsError):
        quickstart(tmp_path / "out", methods=methods, progress=Silent())
    assert not (tmp_path / "out").exists()
