"""Runs in a notebook: the files come out as tables, and no name or answer becomes markup."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dph
from dph._base.tables import data_frame
from dph.errors import DataError, SettingsError
from report_runs import make_runs


@pytest.fixture(scope="module")
def run(plain_runs):
    return dph.load_run(str(plain_runs / "grpo"))


def test_scores_samples_and_metrics_are_those_of_the_files(plain_runs, run):
    table = run.scores()
    said = json.loads((plain_runs / "grpo" / "evaluation.json").read_text())
    assert {*table["set"]} == {*said["sets"]}
    for row in table.itertuples():
        of = said["sets"][row.set]
        name = f"pass_at_{row.k:.0f}" if row.metric == "pass_at_k" else row.metric
        value = of["pass_at_k"][f"{row.k:.0f}"] if row.metric == "pass_at_k" else of[name]
        assert row.value == value
        if name in of["ci95"]:
            assert [row.lo, row.hi] == of["ci95"][name]
    assert table["value"].dtype == np.float64
    assert run.samples(arrow=True).equals(pq.read_table(plain_runs / "grpo" / "samples.parquet"))
    lines = (plain_runs / "grpo" / "metrics.jsonl").read_text().splitlines()
    metrics = run.metrics()
    assert isinstance(metrics, pd.DataFrame)
    assert list(metrics["step"]) == [json.loads(line)["step"] for line in lines]


def test_problems_count_the_answers_that_were_right(run):
    samples, problems = run.samples(), run.problems()
    sampled = samples[samples["sample_index"] >= 0]
    right = (sampled["outcome"] == "CORRECT").groupby([sampled["set"], sampled["problem_id"]]).sum()
    for row in problems.itertuples():
        assert row.correct == right[row.set, row.problem_id]
        assert json.loads(row.answer) is not None
    found = dph.diagnose(run.path)
    lost = {
        (n, o.problem_id) for n, of in found.sets.items() for o in of.problems if o.change == "lost"
    }
    told = problems[problems["change"] == "lost"]
    assert set(zip(told["set"], told["problem_id"], strict=True)) == lost


def test_a_run_knows_what_it_began_with(plain_runs, run):
    assert run.base.path == plain_runs / "base"
    assert run.base.base is None
    assert run.cost.tokens == sum(stage.tokens for stage in run.cost.stages) > 0
    assert run.recipe["method"] == "grpo"
    with pytest.raises(DataError, match="holds"):
        dph.load_run(plain_runs)


def test_without_pandas_a_message_names_arrow(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingsError, match="arrow=True"):
        data_frame(UnconvertedTable(), arrow=False)
    assert run.scores(arrow=True).num_rows > 0


class UnconvertedTable:
    """A table of a process in which pyarrow has not looked for pandas yet."""

    def to_pandas(self):
        import pandas  # noqa: F401, PLC0415


def test_a_notebook_shows_a_verdict_and_escapes_names(run, tmp_path):
    shown = run._repr_html_()
    assert shown.startswith(f"<p><strong>{run.verdict()}")
    assert "<table>" in shown
    place = tmp_path / "<img src=x>"
    make_runs(place)
    for one in (
        dph.load_run(place / "grpo")._repr_html_(),
        dph.compare(place / "base", place / "grpo")._repr_html_(),
        dph.diagnose(place / "grpo")._repr_html_(),
    ):
        assert "<img" not in one
        assert "<p>" in one or "<table>" in one


def test_a_comparison_is_a_sequence_and_a_table_in_the_words_of_a_runs_scores(plain_runs, tmp_path):
    found = dph.compare(plain_runs / "base", plain_runs / "grpo")
    table = found.table()
    assert len(found) == len(table) == len(list(found))
    assert found[0].value == table["value"][0]
    assert np.isnan(table["difference"][0])  # the baseline's own
    assert found == list(found)
    differences = [row.difference.mean for row in found if row.difference is not None]
    assert list(table["difference"].dropna()) == differences
    place = make_runs(tmp_path / "plain_runs", sets={"dev": 4}, samples=16)
    table = dph.compare(place / "base", place / "grpo").table()
    of_grpo = table[table["run"].str.endswith("grpo")]
    assert list(of_grpo["k"].dropna()) == [8, 16]
    scores = dph.load_run(place / "grpo").scores().set_index(["set", "metric", "k"])["value"]
    last = of_grpo[of_grpo["k"] == 16].iloc[0]
    assert last["value"] == scores["dev", "pass_at_k", 16]
    assert set(table["metric"]) == {"greedy", "mean", "pass_at_k"}


@pytest.mark.parametrize(
    ("draw", "more"),
    [(dph.plot.pass_at_k, {"k": 4}), (dph.plot.styles, {}), (dph.plot.retention, {"k": 4})],
)
def test_figures_are_returned(plain_runs, draw, more):
    figure = draw(str(plain_runs), sets=["in_domain"], **more)
    assert len(figure.spec["concat"]) == 1
    assert json.loads(json.dumps(figure.spec)) == figure.spec
    shown = figure._repr_mimebundle_(include=None, exclude=None)
    assert shown["application/vnd.vegalite.v6+json"] == figure.spec
    assert shown["image/png"].startswith(b"\x89PNG")


def test_pass_at_k_takes_columns():
    correct = np.arange(9).reshape(3, 3)
    assert dph.pass_at_k(8, correct, 4).ravel().tolist() == [
        dph.pass_at_k(8, c, 4) for c in range(9)
    ]
    assert dph.pass_at_k(8, pd.Series([0, 8]), 4).tolist() == [0, 1]
    assert dph.pass_at_k(8, [], 4).size == 0
    with pytest.raises(DataError, match="whole numbers"):
        dph.pass_at_k(8, [0.5], 4)


def test_a_report_is_written_and_its_place_returned(plain_runs, tmp_path):
    path = dph.report(str(plain_runs), out=str(tmp_path / "page.html"), title="Mine")
    assert path == tmp_path / "page.html"
    assert "<title>Mine</title>" in path.read_text("utf-8")
    with pytest.raises(DataError, match="at least one run"):
        dph.report()


def test_the_howto_runs_word_by_word(plain_runs, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs/tutorials/notebook.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").symlink_to(plain_runs)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/tutorials/notebook.md", "exec"), names)
    assert {"lost", "counts"} <= names.keys()
