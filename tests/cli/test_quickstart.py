import json
import os

import pytest

from dph.quickstart import run
from dph.results.charts.picture import Picture
from dph.results.report import page as report_file

SET = {
    "problems": 2,
    "greedy": 0.5,
    "mean": 0.25,
    "pass_at_k": {"1": 0.25, "8": 0.5, "16": 1.0},
    "ci95": {"greedy": [0, 1], "mean": [0, 0.5], "pass_at_8": [0, 1], "pass_at_16": [1, 1]},
    "styles": {"plain": 0.75, "cte": 0.25},
    "effective_styles": 1.75,
}
SUMMARY = {
    "schema": 4,
    "seed": 3,
    "words": "GRPO lost 1 of 2 in domain.",
    "solved": {},
    "cost": {"grpo": {"answers": 96, "tokens": 900, "seconds": 61.5, "not_timed": []}},
    "base": {"sets": {"in_domain": SET, "cross_domain": SET}},
    "methods": {"grpo": {"sets": {"in_domain": SET, "cross_domain": SET | {"greedy": None}}}},
}


@pytest.fixture
def called(monkeypatch):
    calls = []

    def fake(directory, *, progress, **options):
        progress.say("working")
        calls.append((directory, options))
        (directory / "grpo").mkdir(parents=True)
        rows = [{"step": step, "effective_styles": 2.0 - 0.1 * step} for step in (1, 2, 3)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (directory / "grpo" / "metrics.jsonl").write_text(lines)
        return SUMMARY

    monkeypatch.setattr(run, "quickstart", fake)
    monkeypatch.setattr(report_file, "vega_script", lambda: "")  # takes seconds to put together
    return calls


def test_options_reach_the_quickstart(dph, called, tmp_path):
    words = ("quickstart", "--methods", "grpo, mine", "--seed", 3, "--out", tmp_path, "--json")
    code, out, err = dph(*words, "--task", "sql", "--jobs", 3, "--tiny")
    assert code == 0
    assert json.loads(out) == SUMMARY
    assert err == "working\n"
    options = {"methods": ["grpo", "mine"], "seed": 3, "task": "sql", "jobs": 3, "tiny": True}
    assert called == [(tmp_path, options)]


def test_what_was_lost_and_kept_comes_first_in_words_picture_and_report(
    dph, called, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    pictures = []
    monkeypatch.setattr(Picture, "save", lambda one, path: pictures.append((one.spec, path)))
    code, out, _ = dph("quickstart")
    assert code == 0
    assert out.splitlines()[0] == SUMMARY["words"]
    [(spec, path)] = pictures
    assert " ".join(spec["title"]["text"]) == SUMMARY["words"]
    assert str(path) == "quickstart/quickstart.png"
    page = (tmp_path / "quickstart" / "report.html").read_text()
    lead = f'<p class="lead"><strong>{SUMMARY["words"]}</strong></p>'
    assert lead in page.partition('id="main"')[2].partition("<h2")[0]
    assert "Base model" in out
    assert "picture: quickstart/quickstart.png\nreport: quickstart/report.html\n" in out
    assert "dph run quickstart/recipes/grpo.toml --set train.steps=80 --out" in out
    [(place, options)] = called
    assert str(place) == "quickstart"
    assert (options["task"], options["seed"]) == ("countdown", 0)
    assert (options["methods"], options["jobs"]) == (["grpo", "dph_f", "rkl"], os.cpu_count())


def test_ctrl_c_says_that_the_same_command_goes_on(dph, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "quickstart", interrupted)
    code, out, err = dph("quickstart", "--out", tmp_path)
    assert (code, out) == (130, "")
    assert "continues where it stopped" in err
