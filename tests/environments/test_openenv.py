"""A real OpenEnv server on loopback, whose environment a policy of ours acts in."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dph import Outcome, Problem
from dph.tasks.environments import Environment, EpisodeLimits
from dph.tasks.environments.openenv import OpenEnv
from scripted_policy import START, byte_tokenizer, call, make_draw

pytest.importorskip("openenv.core", reason="needs openenv: make test-environments")
SERVER = Path(__file__).parents[1] / "openenv_server.py"


@pytest.fixture(scope="module")
def server():
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), str(port)])
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def guess(prompt, index):
    """The first member halves what is left, the second says one number over and over."""
    told = [part for part in prompt.split(START) if part.startswith("tool")]
    if any("The episode is over" in part for part in told):
        return "Done."
    low, high = 0, 8
    for part in told:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if '"more"' in part else (low, middle)
    return call("step", action={"number": (low + high) // 2 if index == 0 else 99})


def test_a_policy_acts_in_a_session_of_its_own(server):
    problem = Problem(problem_id="guess", prompt="Guess.", answer={"reset": {"most": 8}})
    environment = Environment(
        OpenEnv, columns={"base_url": server}, limits=EpisodeLimits(seconds=30.0, turns=6)
    )
    with environment:
        draw = make_draw(byte_tokenizer(), environment, guess, tokens=3000)
        [[halving, stubborn]] = draw([problem], samples=2, seed=1).groups
    assert halving.verdict.outcome is Outcome.CORRECT
    assert stubborn.verdict.outcome is Outcome.CUT_OFF
    assert "guess a number below 8" in halving.completion.text


def test_a_server_that_is_not_there_costs_the_trajectory():
    problem = Problem(problem_id="guess", prompt="Guess.", answer={})
    limits = EpisodeLimits(seconds=30.0)
    with (
        Environment(OpenEnv, columns={"base_url": "http://127.0.0.1:9"}, limits=limits) as none,
        none.begin(problem) as episode,
    ):
        assert episode.ending.outcome is Outcome.CRASHED
        assert "127.0.0.1:9" in episode.ending.reason
