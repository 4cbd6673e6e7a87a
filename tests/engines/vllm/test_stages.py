"""A pool, training and evaluations with the real vLLM drawing, as a user runs them."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import tomli_w

from dph._base.files import read_json
from dph.model.loading import load_model
from dph.records import Problem
from dph.runs.presample.pool import load_pool
from dph.tasks.problems import save_problems
from scored_completions import score_completions

ROOT = Path(__file__).parents[3]


class Telltale(BaseHTTPRequestHandler):
    """Keeps what was asked of it, and has nothing."""

    asked = ()

    def do_GET(self):
        Telltale.asked = (*Telltale.asked, self.path)
        self.send_error(404)

    do_POST = do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def listening():
    """The address of a server that stands for everything that could be told or asked."""
    Telltale.asked = ()
    server = HTTPServer(("127.0.0.1", 0), Telltale)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_run_draws_its_pool_and_its_evaluations_with_vllm_and_tells_nobody(
    tmp_path, directory, listening
):
    problems = [
        Problem(problem_id=f"{i}", prompt=f"w{i + 3} w{i + 9}", answer={"answer": "wx"[i % 2]})
        for i in range(6)
    ]
    save_problems(tmp_path / "train.jsonl", problems)
    train = str(tmp_path / "train.jsonl")
    grading = {"verifier": "letter_grader:grade", "styles": "letter_grader:style_of"}
    stop = [f"w{i}" for i in range(3, 24)]
    recipe = {
        "method": "dph_f",
        "model": {"path": str(directory), "device": "cpu"},
        "data": {"train": train, "sets": {"dev": train}, **grading},
        "sampling": {"engine": "vllm", "max_tokens": 16, "temperature": 0.8, "stop": stop},
        "vllm": {"memory": 0.15, "eager": True},
        "presample": {"samples": 4, "threshold": 1},
        "train": {"steps": 2, "problems_per_step": 2, "samples_per_problem": 4},
        "evaluate": {"samples": 4, "retention_k": 2},
    }
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(recipe))
    done = subprocess.run(
        [sys.executable, "-m", "dph", "run", "recipe.toml", "--out", "run", "--json"],
        cwd=tmp_path,
        env=os.environ
        | {"VLLM_USAGE_STATS_SERVER": listening, "HF_ENDPOINT": listening}
        | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    json.loads(done.stdout)  # and nothing beside it
    assert Telltale.asked == ()
    for noise in ("Traceback", "leaked", "force killing"):
        assert noise not in done.stderr
    pool = load_pool(tmp_path / "run" / "pool")
    assert read_json(tmp_path / "run" / "pool" / "manifest.json")["source"]["engine"] == "vllm"
    expected = score_completions(
        load_model(directory),
        [sample.prompt_ids for sample in pool.rehearsal],
        [sample.completion_ids for sample in pool.rehearsal],
        temperature=0.8,
        pad_id=0,
        token_budget=4096,
        dtype="float32",
    )
    assert pool.rehearsal
    for sample, logprobs in zip(pool.rehearsal, expected, strict=True):
        assert sample.ref_logprobs == pytest.approx(logprobs, abs=1e-5)
    evaluation = read_json(tmp_path / "run" / "evaluation.json")["sets"]["dev"]
    assert evaluation["pass_at_k"]
