import os
import random
import signal
import subprocess
import sys
import time

import pytest

from lab.study.rows import Places, read_rows
from small_study import RULE, STUDY

LONGER = STUDY.replace("[100, 101]", "[100, 101, 102]").replace(
    "[0, 1, 2]", "[0, 1, 2, 3, 4, 5, 6, 7]"
)
LONGER += '[[methods]]\nname = "grpo"\nlabel = "between"\ninterpolate = [0.3, 0.5]\n'
CHILD = """
import sys
from contextlib import contextmanager
from pathlib import Path

from dph._processes.jobs import CoreJobs
from lab.study.planner import Planner
from lab.study.rule_lock import current_lock, default_places
from lab.study.runner import Runner
from lab.study.settings import load_study

class Lines:
    def say(self, text):
        print(text, flush=True)

study = load_study(Path(sys.argv[1]))
planner, places = Planner(study), default_places(study, Path(sys.argv[2]))
print("started", flush=True)
jobs = CoreJobs(2, places.log, entry="study_stub:work")
rows = Runner(planner, places, jobs).run(Lines())
from lab.study.outputs import write_study
write_study(places, planner.plan(rows), rows, current_lock(study, places, rows))
"""
RUNS = 3 * (1 + 2 + 2 + 1 + 2) + 8 * (1 + 4)


def start(file, out):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(file), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def kill_somewhere(file, out, rng):
    """Let no run or one end and a moment pass, then kill; whether it was still at work."""
    ended = rng.randrange(2)
    with start(file, out) as process:
        for line in process.stdout:
            if line.startswith("started") and ended == 0:
                break
            if "runs" in line:
                ended -= 1
            if ended < 0:
                break
        time.sleep(0.1 * rng.random())
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
    return alive


def finish(file, out):
    with start(file, out) as process:
        process.stdout.read()
    assert process.returncode == 0
    return (out / "study.parquet").read_bytes()


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_it_ends_with_the_same_bytes(count, tmp_path):
    file = tmp_path / "STUDY.toml"
    file.write_text(LONGER)
    (tmp_path / "rule.toml").write_text(RULE)
    whole = finish(file, tmp_path / "whole")
    rng = random.Random(20)
    kills = [kill_somewhere(file, tmp_path / "killed", rng) for _ in range(count)]
    assert sum(kills) == count
    assert not (tmp_path / "killed" / "study.parquet").exists()
    assert finish(file, tmp_path / "killed") == whole
    runs = [set(read_rows(Places(tmp_path / name))) for name in ("whole", "killed")]
    assert runs[0] == runs[1]
    assert len(runs[0]) == RUNS
