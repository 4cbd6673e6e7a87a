import json
from importlib.metadata import PackageNotFoundError

import pytest

from dph.results.report import page as report_file
from report_runs import make_runs


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(report_file, "vega_script", lambda: "")  # takes seconds to put together
    return make_runs(tmp_path / "runs", sets={"dev": 3})


def test_the_report_is_one_file_and_says_what_it_holds(dph, runs, tmp_path):
    out = tmp_path / "page.html"
    code, text, err = dph("report", runs, "--out", out)
    assert (code, err) == (0, "")
    size = f"{out.stat().st_size / 1e6:.1f}"  # 3 models, 3 problems, 9 answers
    assert text.startswith(f"report: {out}, {size} MB, 81 answers")
    assert "Content-Security-Policy" in out.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_json_has_sizes_and_names(dph, runs, tmp_path):
    out = tmp_path / "page.html"
    document = json.loads(dph("report", runs / "grpo", "--out", out, "--json")[1])
    assert document["bytes"] == out.stat().st_size
    assert document["code_bytes"] < 3_000_000
    assert list(document["runs"].values()) == ["Base model", "GRPO"]
    assert document["notes"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope"], "there is no run directory nope"),
        (["runs", "--out", "runs"], "--out names a directory"),
        (["runs", "--out", "nowhere/x.html"], "there is no directory"),
    ],
)
def test_bad_input_gets_one_clear_line(dph, runs, monkeypatch, words, message):
    monkeypatch.chdir(runs.parent)
    code, out, err = dph("report", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_without_the_extra_it_says_what_to_install(dph, runs, monkeypatch, tmp_path):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("dph.results.report.page.version", missing)
    code, _, err = dph("report", runs, "--out", tmp_path / "page.html")
    assert code == 2
    assert "pip install 'dph-rl[report]'" in err
