import json
import os

import pytest

from dph.results.report import page as report_file
from lab.quickstart import run
from lab.worlds import world_kind

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
    "schema": 3,
    "seed": 3,
    "cost": {"grpo": {"answers": 96, "tokens": 900, "seconds": 61.5, "not_timed": []}},
    "base": {"sets": {"in_domain": SET, "cross_domain": SET}},
    "methods": {"grpo": {"sets": {"in_domain": SET, "cross_domain": SET | {"greedy": None}}}},
    "seconds": {"world": 1.5, "total": 61.5},
}


@pytest.fixture
def called(monkeypatch):
    calls = []

    def fake(directory, *, methods, seed, progress, task, edition, jobs, size):
        progress.say("working")
        calls.append((directory, tuple(methods), seed, task, edition, jobs, size))
        (directory / "grpo").mkdir(parents=True)
        rows = [{"step": step, "effective_styles": 2.0 - 0.1 * step} for step in (1, 2, 3)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (directory / "grpo" / "metrics.jsonl").write_text(lines)
        return SUMMARY

    monkeypatch.setattr(run, "quickstart", fake)
    monkeypatch.setattr(report_file, "vega_script", lambda: "")  # takes seconds to put together
    return calls


def test_options_reach_the_quickstart(dph, called, tmp_path):
    words = ("quickstart", "--methods", "grpo, rkl@0.3", "--seed", 3, "--out", tmp_path, "--json")
    words += ("--task", "countdown", "--world", 1, "--jobs", 3)
    code, out, err = dph(*words)
    assert code == 0
    assert json.loads(out) == SUMMARY
    assert err == "working\n"
    assert called == [(tmp_path, ("grpo", "rkl@0.3"), 3, "countdown", 1, 3, None)]


def test_tiny_is_the_smallest_world_of_its_task(dph, called, tmp_path):
    assert dph("quickstart", "--tiny", "--out", tmp_path)[0] == 0
    [size] = [call[-1] for call in called]
    kind = world_kind("sql")
    assert (size.world, size.base_steps) == (kind.tiny, kind.tiny_steps)
    assert size.steps * size.problems_per_step <= size.world.train


def test_tiny_is_refused_where_no_base_model_is_known_to_do(dph, called, tmp_path):
    words = ("--tiny", "--task", "countdown", "--world", 1, "--out", tmp_path / "out")
    code, _, err = dph("quickstart", *words)
    assert (code, called) == (2, [])
    assert (
        "no tiny quickstart of the task 'countdown', edition 1; choose another task, such as" in err
    )
    assert "sql or real" in err
    assert not (tmp_path / "out").exists()


def test_an_edition_that_is_not_there_is_refused_with_those_that_are(dph, tmp_path):
    code, _, err = dph("quickstart", "--world", 1, "--out", tmp_path / "out")
    assert (code, err) == (2, "dph: error: the task 'sql' has no world 1; it has: 2\n")
    assert not (tmp_path / "out").exists()


def test_the_default_is_three_methods_and_the_first_seed(dph, called, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = dph("quickstart")
    assert code == 0
    assert "Base model" in out
    assert "100.0 [100.0, 100.0]" in out
    assert "Seen on seed 3, base model to trained model:\n  GRPO: in domain greedy 50.0 to" in out
    assert (
        "seed 0, 1 min 2 s\npicture: quickstart/quickstart.png\nreport: quickstart/report.html\n\n"
    ) in out
    assert out.splitlines()[-1].startswith("One seed is one draw of many")
    assert (tmp_path / "quickstart" / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "quickstart" / "quickstart.png").read_bytes().startswith(b"\x89PNG")
    assert [(str(d), *rest) for d, *rest in called] == [
        ("quickstart", ("grpo", "dph_f", "dph_broad"), 0, "sql", None, os.cpu_count(), None)
    ]


def test_ctrl_c_says_that_the_same_command_goes_on(dph, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "quickstart", interrupted)
    code, out, err = dph("quickstart", "--out", tmp_path)
    assert (code, out) == (130, "")
    assert "continues where it stopped" in err
