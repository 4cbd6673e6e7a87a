import gzip
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from dph._base.provenance import install_command
from dph.results.report import page as report_file
from report_runs import make_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("place") / "runs", sets={"dev": 3})


@pytest.fixture(autouse=True)
def _without_charts(monkeypatch):
    monkeypatch.setattr(report_file, "vega_script", lambda: "")  # takes seconds to put together


def test_the_report_is_one_file_and_says_what_it_holds(dph, document, runs, tmp_path):
    out = tmp_path / "page.html"
    code, text, err = dph("report", runs, "--out", out)
    assert (code, err) == (0, "")
    size = f"{out.stat().st_size / 1e6:.1f}"  # 3 models, 3 problems, 9 answers
    assert text.startswith(f"report: {out}, {size} MB, 81 answers")
    assert "Content-Security-Policy" in out.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    document = document("report", runs / "grpo", "--out", out)
    assert document["bytes"] == out.stat().st_size
    assert document["code_bytes"] < out.stat().st_size
    assert list(document["runs"].values()) == ["Base model", "GRPO"]
    assert document["notes"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("report nope", "there is no run directory nope"),
        ("report runs --out runs", "--out names a directory"),
        ("report runs --out nowhere/x.html", "there is no directory"),
        ("view nope", "there is no run directory nope"),
        ("view runs --host 203.0.113.9 --port 0", "cannot listen on 203.0.113.9"),
    ],
)
def test_bad_input_gets_one_clear_line(refusal, runs, monkeypatch, words, message):
    monkeypatch.chdir(runs.parent)
    assert message in refusal(*words.split())


def test_without_the_extra_it_says_what_to_install(refusal, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "dph.results.view", raising=False)
    assert f"uvicorn is missing: {install_command('view')}" in refusal("view", runs)


def test_it_prints_the_address_answers_there_and_ends_when_it_is_interrupted(runs):
    command = [sys.executable, "-m", "dph", "view", str(runs), "--port", "0", "--token"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        # As in a terminal: a shell's background jobs, tests among them, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            line = process.stdout.readline()
            address, token = re.fullmatch(
                r"view: (http://127\.0\.0\.1:\d+/)\?token=(\S+)\n", line
            ).groups()
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert b"GRPO" in opener.open(f"{address}?token={token}").read()
            index = json.loads(gzip.decompress(opener.open(f"{address}data/index").read()))
            assert [run["label"] for run in index["runs"]] == ["Base model", "DPH-F", "GRPO"]
        finally:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
    assert err.startswith("3 models, 81 answers")
    assert "Traceback" not in err
    assert process.returncode == 130


def test_a_port_that_is_taken_is_named(dph, runs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = dph("view", runs, "--port", port)
    assert (code, out) == (2, "")
    assert f"cannot listen on 127.0.0.1 port {port}: it is in use; --port 0 picks a free one" in err
