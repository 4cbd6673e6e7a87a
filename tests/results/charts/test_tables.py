import io

import pytest
from rich.console import Console

from dph.errors import DataError
from dph.results.charts.tables import (
    comparison_table,
    cost_document,
    cost_words,
    differences_table,
    evaluation_table,
    markdown_table,
)
from dph.runs.stage_costs import RunCost, StageCost
from results.charts.synthetic import comparison_row, make_summary


def text_of(table):
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(table)
    return console.file.getvalue()


@pytest.fixture
def summary():
    one = {
        "problems": 10,
        "greedy": 0.52,
        "mean": 0.444,
        "pass_at_k": {"1": 0.444, "8": 0.86, "16": 0.93},
        "ci95": {"greedy": [0.5, 0.54], "mean": [0.4, 0.48], "pass_at_8": [0.8, 0.9]},
        "keep": 0.9,
        "explore": None,
        "keep_null": 0.95,
        "explore_null": None,
        "styles": {"plain": 1.0},
        "effective_styles": 1.0,
    }
    bare = {**one, "greedy": None, "ci95": {}, "effective_styles": None, "keep_null": None}
    return {"base": {"sets": {"dev": one}}, "methods": {"dph_f": {"sets": {"dev": bare}}}}


def test_a_markdown_table_is_what_a_readme_takes(summary):
    assert markdown_table(summary, set_name="dev") == (
        "| dev | greedy | mean | pass@8 | pass@16 | styles |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| Base model | 52.0 [50.0, 54.0] | 44.4 [40.0, 48.0] | 86.0 [80.0, 90.0] | 93.0 | 1.0 |\n"
        "| DPH-F | - | 44.4 | 86.0 | 93.0 | - |\n"
    )
    lines = markdown_table(summary, set_name="dev", ks=[1], intervals=False).splitlines()
    assert lines[0] == "| dev | greedy | mean | pass@1 | styles |"
    assert lines[2] == "| Base model | 52.0 | 44.4 | 44.4 | 1.0 |"
    text = text_of(comparison_table(summary))
    assert "86.0 [80.0, 90.0]" in text
    assert "95% intervals" in text
    text = text_of(comparison_table(make_summary(["grpo", "dph_js"]), intervals=False))
    for expected in ("in domain", "cross domain", "arithmetic", "pass@8", "pass@16"):
        assert text.count(expected) == 1
    assert text.count("DPH-JS") == text.count("GRPO") == text.count("Base model") == 3


def test_the_share_of_answers_that_were_cut_off_stands_in_every_table(summary):
    summary["base"]["sets"]["dev"]["cut_off"] = 0.125
    lines = markdown_table(summary, set_name="dev", intervals=False).splitlines()
    assert lines[0].endswith("| styles | cut off |")
    assert [line.split("|")[-2].strip() for line in lines[2:]] == ["12.5", "-"]
    assert "cut off" in text_of(comparison_table(summary, intervals=False))
    document = {"schema": 2, "model": "m", "samples": 16, "sets": summary["base"]["sets"]}
    (line,) = [x for x in text_of(evaluation_table(document)).splitlines() if "cut off" in x]
    assert line.split() == ["cut", "off", "12.5"]


def test_an_evaluation_shows_retention_beside_its_null(summary):
    document = {"schema": 1, "model": "m", "samples": 16, "sets": summary["base"]["sets"]}
    lines = [" ".join(line.split()) for line in text_of(evaluation_table(document)).splitlines()]
    assert "keep (base itself) 90.0 (95.0)" in lines
    assert "explore (base itself) -" in lines
    assert "pass@16 93.0" in lines
    assert "effective styles 1.0" in lines


def test_differences_are_in_points_with_a_sign():
    rows = [
        comparison_row(metric, run, *apart)
        for metric in ("mean", "pass_at_8")
        for run, apart in (("base", ()), ("grpo", (0.021, -0.01, 0.05)))
    ]
    text = text_of(differences_table(rows))
    assert text.count("+2.1 [-1.0, +5.0]") == 2
    assert text.count("50.0 [40.0, 60.0]") == 4
    assert text.count("dev") == 2
    assert "pass@8" in text


def test_a_model_without_the_set_is_refused(summary):
    with pytest.raises(DataError, match="'base' was not evaluated on set 'test', only on dev"):
        markdown_table(summary, set_name="test")
    del summary["methods"]["dph_f"]["sets"]["dev"]
    with pytest.raises(DataError, match="'dph_f' was not evaluated on set 'dev'"):
        comparison_table(summary)


def test_the_stages_that_the_time_lacks_are_named_and_of_nothing_nothing_is_said():
    drawn = StageCost(stage="pre-sampling", answers=100, tokens=900, seconds=None)
    training = StageCost(stage="training", answers=20, tokens=300, seconds=61.0)
    words = cost_words(cost_document(RunCost([drawn, training])))
    assert words == "120 answers, 1,200 tokens, 1 min 1 s (without the time of pre-sampling)"
    assert cost_words(cost_document(RunCost([]))) == ""
