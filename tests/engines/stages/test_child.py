"""Commands of engines: watched, ended with everything they started, and heard when they fail."""

import os
import sys
import time

import pytest

from dph.engines.stages.stage import run_command
from dph.errors import TrainingError


def python(text):
    return [sys.executable, "-c", text]


def is_there(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 - of the kernel
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_it_is_watched_while_it_runs_and_once_more_at_its_end(tmp_path):
    seen = []
    text = "import time; print('working', flush=True); time.sleep(1)"
    run_command(python(text), environment={}, log=tmp_path / "log", watch=lambda: seen.append(1))
    assert len(seen) > 2
    assert (tmp_path / "log").read_text() == "working\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys; print('dph: no pool'); print('bye'); sys.exit(1)", "no pool"),
        ("raise ValueError('5 apples')", "ValueError: 5 apples"),
        ("print('[rank1]: x.OneError: first'); raise KeyError('last')", "x.OneError: first"),
        ("import sys; print('halt'); sys.exit(3)", "halt"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9: it left no message"),
    ],
)
def test_a_failure_says_why_and_where_the_log_is(tmp_path, text, reason):
    with pytest.raises(TrainingError) as failed:
        run_command(python(text), environment={}, log=tmp_path / "log")
    assert str(failed.value) == f"{reason} (the whole log: {tmp_path / 'log'})"


def test_whatever_it_started_ends_when_watching_it_fails(tmp_path):
    text = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(60)']); print(child.pid, flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"

    def watch():
        if log.read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_command(python(text), environment={}, log=log, watch=watch)
    grandchild, deadline = int(log.read_text()), time.monotonic() + 60
    while is_there(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(grandchild)


def test_the_environment_is_ours_with_what_is_said_beside_it(tmp_path):
    text = "import os; print(os.environ['A'], os.environ['DPH_PARENT_PID'], 'PATH' in os.environ)"
    run_command(python(text), environment={"A": "b"}, log=tmp_path / "log")
    assert (tmp_path / "log").read_text() == f"b {os.getpid()} True\n"
