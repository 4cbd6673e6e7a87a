"""Running a script of these tests in two processes that train together (gloo)."""

import os
import subprocess
import sys
from pathlib import Path

import torch

TESTS = Path(__file__).parents[2]


def run_two_processes(script, directory, *arguments, timeout=240):
    """Run it in ``directory``; gives what each process left there, if it left something."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", str(Path(__file__).with_name(script))]
    done = subprocess.run(
        [*command, str(directory), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(path, weights_only=True) for path in sorted(directory.glob("rank?.pt"))]
