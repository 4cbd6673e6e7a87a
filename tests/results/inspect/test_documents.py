"""What a log says; read without Inspect (test_read_back has its own reader)."""

import json
import zipfile
from pathlib import Path

import pytest

from dph._base.files import read_json
from dph.cli import main
from dph.errors import DataError
from dph.records import Problem
from dph.results.inspect import log_sample, target_of, write_inspect_logs
from dph.runs.evaluate.samples_file import read_samples
from report_runs import HOSTILE, make_runs

SMALL = {"in_domain": 3, "cross_domain": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("runs"), sets=SMALL, hostile=True) / "grpo"


def entries(path):
    with zipfile.ZipFile(path) as log:
        assert log.testzip() is None
        return {name: json.loads(log.read(name)) for name in log.namelist()}


def test_there_is_a_log_a_set_and_one_of_its_greedy_answers(run, tmp_path):
    logs, notes = write_inspect_logs(run, tmp_path / "logs")
    assert notes == []
    assert [(Path(log["log"]).name, log["answers"]) for log in logs] == [
        ("in_domain.eval", 8 * 4),
        ("in_domain-greedy.eval", 4),
        ("cross_domain.eval", 8 * 2),
        ("cross_domain-greedy.eval", 2),
    ]
    assert sum(log["answers"] for log in logs) == read_samples(run / "samples.parquet").num_rows


def test_every_answer_is_a_sample_with_its_verdict_and_scores_are_the_evaluations(run, tmp_path):
    write_inspect_logs(run, tmp_path)
    found = entries(tmp_path / "in_domain.eval")
    table = read_samples(run / "samples.parquet").to_pylist()
    rows = [r for r in table if r["set"] == "in_domain" and r["sample_index"] >= 0]
    assert set(HOSTILE) <= {row["text"] for row in rows}
    for row in rows:
        sample = found[f"samples/{row['problem_id']}_epoch_{row['sample_index'] + 1}.json"]
        assert sample["output"]["completion"] == row["text"]
        assert sample["messages"][-1]["content"] == row["text"]
        value = sample["scores"]["verdict"]["value"]
        assert value == ("C" if row["outcome"] == "CORRECT" else "I")
        assert sample["metadata"]["style"] == row["style"]
    first = found["samples/in_domain-0000_epoch_1.json"]
    assert first["input"][0]["content"].endswith("show rooms above 0 of in_domain ->")
    assert first["target"] == "SELECT rooms FROM hotel WHERE stars > 0"
    wanted = read_json(run / "evaluation.json")["sets"]["in_domain"]
    (score,) = found["header.json"]["results"]["scores"]
    values = {name: metric["value"] for name, metric in score["metrics"].items()}
    assert values["pass_at_8"] == wanted["pass_at_k"]["8"]
    assert values["mean"] == wanted["mean"]
    assert score["metadata"]["ci95"]["pass_at_8"] == wanted["ci95"]["pass_at_8"]
    greedy = entries(tmp_path / "in_domain-greedy.eval")["header.json"]["results"]["scores"][0]
    assert greedy["metrics"]["accuracy"]["value"] == wanted["greedy"]


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    for name in "ab":
        write_inspect_logs(run, tmp_path / name)
    for log in (tmp_path / "a").iterdir():
        assert log.read_bytes() == (tmp_path / "b" / log.name).read_bytes()


def test_a_bad_gold_leaves_no_score_and_one_of_unknown_form_is_shown_whole():
    row = {
        "problem_id": "p", "sample_index": 0, "text": "2", "tokens": 1, "finished": False,
        "outcome": "BAD_GOLD", "reward": 0.0, "reason": "no such table", "style": None,
    }  # fmt: skip
    sample = log_sample(None, row, model="m", uuid="u")
    assert sample["scores"] == {}
    assert sample["output"]["choices"][0]["stop_reason"] == "max_tokens"
    problem = Problem(problem_id="p", prompt="?", answer={"outcome": "CORRECT"})
    assert log_sample(problem, row, model="m", uuid="u")["metadata"]["outcome"] == "BAD_GOLD"
    problem = Problem(problem_id="p", prompt="?", answer={"tests": [1, 2]})
    assert target_of(problem) == '{"tests": [1, 2]}'


def test_the_verb_says_how_to_look_at_them(run, capsys, tmp_path):
    assert main(["convert", "--to", "inspect", str(run)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == f"inspect view --log-dir {run / 'inspect'}"
    assert (run / "inspect" / "in_domain.eval").is_file()
    assert main(["convert", "--to", "inspect"]) == 2
    assert "--to inspect needs RUN" in capsys.readouterr().err
    assert main(["convert", "--to", "inspect", str(run), "--data-source", "x"]) == 2
    assert main(["convert", "--to", "inspect", str(tmp_path)]) == 2
    assert "was not evaluated" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        write_inspect_logs(run, tmp_path / "file")
