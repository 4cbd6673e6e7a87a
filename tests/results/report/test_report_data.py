import html
import json
import logging
import shutil
from types import SimpleNamespace

import pytest

from dph.errors import DataError, SettingsError
from dph.results.over_seeds import mean_over_seeds
from dph.results.report.charts import report_charts, training_charts
from dph.results.report.page import write_report
from dph.results.report.report_data import SeedGroup, read_report
from dph.results.report.run_table import differing_settings, run_table, table_columns
from dph.results.report.verdicts import of_seeds, verdict_lines
from dph.results.vocabulary import Look
from dph.runs.evaluate.samples_file import read_samples, write_samples
from report_runs import SAMPLES, SETS, make_runs

LOOK = Look("#0072B2", "circle")


@pytest.fixture(scope="module")
def report(plain_runs):
    return read_report([plain_runs])


def test_a_directory_of_runs_stands_for_them_and_their_base_comes_first_and_once(report):
    assert [(run.key, run.label, run.is_base) for run in report.runs] == [
        ("r0", "Base model", True),
        ("r1", "DPH-F", False),
        ("r2", "GRPO", False),
    ]
    assert [run.baseline for run in report.runs] == [None, "r0", "r0"]
    assert report.sets == list(SETS)
    assert report.notes == []


def test_runs_are_a_list_of_paths_or_texts(plain_runs, monkeypatch):
    monkeypatch.chdir(plain_runs)
    for runs in (["base", "grpo"], [plain_runs / "base", plain_runs / "grpo"]):
        assert [run.label for run in read_report(runs).runs] == ["Base model", "GRPO"]
    for alone in (str(plain_runs), plain_runs):
        with pytest.raises(SettingsError, match="takes a list of runs"):
            read_report(alone)


def test_the_table_is_that_of_evaluation_json_and_shows_first_try_reach_and_losses_first(
    report, plain_runs
):
    wanted = json.loads((plain_runs / "grpo" / "evaluation.json").read_text())["sets"]["in_domain"]

    def value(key, line="r2"):
        return cells_of(report)[f"in_domain/{key}"][line]

    assert value("greedy").value == wanted["greedy"]
    assert value(f"pass_at_{SAMPLES}").value == wanted["pass_at_k"][str(SAMPLES)]
    assert value("effective_styles").value == 1.0  # GRPO answers in one style
    assert value("lost").value == 1.0
    assert value("greedy", "r0").difference is None
    found = value("greedy")
    assert found.difference_low <= found.difference <= found.difference_high
    table = run_table(report)
    assert table["about"]["in domain"] == f"24 problems, {SAMPLES} samples each"
    assert table["against"] == "Base model"
    assert table["shown"] == [
        *(f"{name}/{of}" for name in SETS for of in ("greedy", f"pass_at_{SAMPLES}", "lost")),
        "cost/seconds",
        "cost/tokens",
    ]


def test_every_run_has_a_verdict_and_the_one_that_lost_problems_comes_first(report):
    lines = verdict_lines(report)
    assert [line["label"] for line in lines] == ["GRPO", "DPH-F"]
    assert lines[0]["parts"][-1].text == "1 problem lost"
    assert lines[0]["parts"][-1].lost == {"in_domain": 1}
    assert "cannot be distinguished from Base model" in lines[1]["parts"][0].text


def test_no_run_is_compared_with_itself_and_its_curves_are_shown(tmp_path):
    place = make_runs(tmp_path)
    shutil.rmtree(place / "base")
    assert verdict_texts(read_report([place / "grpo"])) == {}
    assert set(verdict_texts(read_report([place]))) == {"GRPO"}
    page = write_report(read_report([place / "grpo"]), tmp_path / "page.html").path.read_text(
        "utf-8"
    )
    assert "nothing to compare" not in page
    assert 'data-charts="pass_at_k"' in page


def test_seeds_that_are_not_evaluated_yet_are_left_out_and_told(tmp_path):
    place = make_runs(tmp_path, sets={"in_domain": 8}, seeds=(0, 1, 2))
    (own,) = verdict_texts(read_report([place / "grpo_0"])).values()

    def without(seed):
        for name in ("evaluation.json", "samples.parquet"):
            (place / f"grpo_{seed}" / name).unlink()
        return verdict_texts(read_report([place])).get("GRPO (3 seeds)")

    two = without(2)
    assert two[0] == "2 of 3 seeds evaluated"
    assert not any("nothing to compare" in text for text in two)
    assert without(1) == ["1 of 3 seeds evaluated", *own]
    assert without(0) is None


def test_seeds_of_several_base_models_are_compared_each_with_its_own(tmp_path):
    for seed in (0, 1):
        made = make_runs(tmp_path / str(seed), methods=("grpo",), seeds=(seed, 9))
        shutil.rmtree(made / "grpo_9")
    base = made / "base" / "samples.parquet"
    write_samples(base, read_samples(base), digest="another base model")
    report = read_report([tmp_path / "0", tmp_path / "1"])
    assert [run.is_base for run in report.runs] == [True, True, False, False]
    verdict = of_seeds(report, "GRPO", report.runs[2:], planned=2)
    assert verdict.baseline == "their initial policies"
    assert verdict.planned == verdict.seeds == 2
    titles = {chart.title for chart in report_charts(report) if chart.section != "training"}
    assert titles == {
        *(f"{name}, Pass@8" for name in ("In domain", "Cross domain")),
        *("In domain", "Cross domain"),
    }


def verdict_texts(report):
    return {of["label"]: [part.text for part in of["parts"]] for of in verdict_lines(report)}


def test_a_chart_draws_no_metric_that_is_always_zero_or_not_there(report):
    titles = [chart.title for chart in report_charts(report) if chart.section == "training"]
    assert "Entropy" in titles
    assert "KL penalty" not in titles
    divergence = next(c for c in report_charts(report) if c.title == "Divergence on stored answers")
    assert set(divergence.columns["run"]) == {"r1", "r2"}


def test_an_outcome_that_a_step_does_not_name_did_not_occur_in_it():
    rows = [{"step": 1, "outcome_invalid": 0.25}, {"step": 2}, {"step": 3, "outcome_invalid": None}]
    chart = training_charts([SimpleNamespace(key="r1", log=rows, look=LOOK)])[0]
    assert chart.title == "Answers: invalid"
    assert chart.columns["x"] == [1, 2]
    assert chart.columns["value"] == [0.25, 0.0]


def test_a_log_that_is_long_or_of_equal_values_is_drawn_in_means_or_once_and_says_so():
    rows = [{"step": step, "reward": step / 8, "correct": step / 8} for step in (1, 2)]
    (chart,) = training_charts([SimpleNamespace(key="r1", log=rows, look=LOOK)])
    assert (chart.title, chart.caption) == ("Reward", "equal to correct answers")
    rows = [{"step": step, "reward": step % 2} for step in range(1, 1001)]
    chart = training_charts([SimpleNamespace(key="r1", log=rows, look=LOOK)])[0]
    assert chart.caption == "means over 3 steps"
    assert len(chart.columns["x"]) == 334
    assert chart.columns["value"][0] == pytest.approx(2 / 3)


def test_seeds_of_a_method_are_a_line_of_their_mean_at_the_steps_that_all_have():
    logs = [[1.0, 2.0, 3.0], [3.0, 2.0]]
    rows = [[{"step": step, "reward": x} for step, x in enumerate(log, start=1)] for log in logs]
    runs = [SimpleNamespace(key=f"r{i}", log=log, look=LOOK) for i, log in enumerate(rows)]
    group = SeedGroup(key="g0", label="GRPO (2 seeds)", runs=["r0", "r1"], look=LOOK)
    columns = training_charts(runs, [group])[0].columns
    line = [i for i, key in enumerate(columns["run"]) if key == "g0"]
    assert [columns["x"][i] for i in line] == [1, 2]
    assert [columns["value"][i] for i in line] == [2.0, 2.0]
    low, high = mean_over_seeds([1.0, 3.0]).interval()
    assert columns["lo"][line[0]] == pytest.approx(low)
    assert columns["hi"][line[0]] == pytest.approx(high)
    assert columns["lo"][0] is None  # of a run alone nothing is known


def test_what_was_measured_while_training_has_bands_and_memory_is_next_to_seconds():
    row = {"step": 5, "eval/dev/pass_at_8": 0.5, "eval/dev/pass_at_8_lo": 0.4}
    row |= {"eval/seconds_sampling": 1.5}  # of the evaluation, and of no set
    rows = [row | {"eval/dev/pass_at_8_hi": 0.6}]
    chart = training_charts([SimpleNamespace(key="r1", log=rows, look=LOOK)])
    assert [one.title for one in chart] == ["Pass@8, dev"]
    assert (chart[0].columns["lo"], chart[0].columns["hi"]) == ([0.4], [0.6])

    rows = [{"step": step, "seconds": 2.0, "peak_memory": 1.5} for step in (1, 2)]
    run = SimpleNamespace(key="r1", log=rows, look=LOOK)
    charts = [(one.part, one.title, one.caption) for one in training_charts([run])]
    assert charts == [
        ("System", "Time of a step", "s"),
        ("System", "Peak memory of the process", "GiB"),
    ]


def cells_of(report):
    """The cells of the table by the key of their column and their line."""
    return {column.key: column.cells for column in table_columns(report)}


def facts_of(report):
    """Every value of the table by the label of its line and the key of its column."""
    cells = cells_of(report)
    return {
        label: {key: of[line].value for key, of in cells.items() if line in of}
        for line, (label, _) in report.drawn.items()
    }


def test_what_was_run_is_told_and_where_settings_differ(report):
    facts = facts_of(report)
    grpo = facts["GRPO"]
    assert (grpo["run/method"], grpo["run/seed"], grpo["run/steps"]) == ("GRPO", 0, 40)
    assert grpo["cost/seconds"] == pytest.approx(160)
    assert grpo["cost/tokens"] == 160_000
    assert facts["Base model"]["run/method"] is None
    settings = differing_settings(report.runs)
    assert any(key.startswith("objective.anchors.rehearsal") for key in settings)
    assert not {"name", "method"} & set(settings)
    assert {f"setting/{key}" for key in settings} <= set(grpo)


def test_what_trained_a_run_is_told_and_where_it_changed(tmp_path, plain_runs):
    shutil.copytree(plain_runs / "grpo", tmp_path / "grpo")
    rows = [
        {"first_step": 1, "dph": "0.1.0", "torch": "2.8.0"},
        {"first_step": 21, "dph": "0.2.0", "torch": "2.8.0"},
    ]
    (tmp_path / "grpo" / "software.json").write_text(json.dumps(rows))
    (facts,) = facts_of(read_report([tmp_path / "grpo"])).values()
    assert facts["run/trained_by"] == (
        "dph 0.1.0, torch 2.8.0; from step 21 on dph 0.2.0, torch 2.8.0"
    )
    untold = facts_of(read_report([plain_runs / "grpo"])).values()
    assert all("run/trained_by" not in facts for facts in untold)


def test_a_run_that_was_only_trained_is_shown_and_told(tmp_path, plain_runs):
    run = tmp_path / "half"
    run.mkdir()
    (run / "metrics.jsonl").write_bytes((plain_runs / "grpo" / "metrics.jsonl").read_bytes())
    found = read_report([run])
    assert found.sets == []
    assert found.notes == [f"{run}: not evaluated"]
    charts = report_charts(found)
    assert {chart.section for chart in charts} == {"training"}
    parts = list(dict.fromkeys(chart.part for chart in charts))
    assert parts == ["Outcome", "Diversity", "Optimiser", "System"]


def test_runs_on_other_problems_are_refused(tmp_path, plain_runs):
    other = make_runs(tmp_path / "other", sets={"in_domain": 24})
    path = other / "in_domain.jsonl"
    path.write_text(path.read_text().replace("stars > 3", "stars > 33"))
    with pytest.raises(
        DataError, match=r"other problems in their sets 'in_domain'.*in_domain-0003"
    ):
        read_report([plain_runs / "grpo", other / "grpo"])


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path, caplog):
    caplog.set_level(logging.ERROR)
    place = make_runs(tmp_path, sets={"dev": 6}, seeds=(0, 1, 2))
    report = read_report([place])
    assert [(group.key, group.label, len(group.runs)) for group in report.groups] == [
        ("g0", "DPH-F (3 seeds)", 3),
        ("g1", "GRPO (3 seeds)", 3),
    ]
    values = [
        json.loads((place / f"grpo_{seed}" / "evaluation.json").read_text())["sets"]["dev"]["mean"]
        for seed in range(3)
    ]
    cells = cells_of(report)
    over = cells["dev/mean"]["g1"]
    assert over.value == pytest.approx(sum(values) / 3)
    low, high = mean_over_seeds(values).interval((0, 1))
    assert (over.low, over.high) == pytest.approx((low, high))
    assert cells["run/seed"]["g1"].value == "0, 1, 2"
    assert {line["key"] for line in verdict_lines(report)} == {"g0", "g1"}
    assert len({run.look.colour for run in report.runs}) > 4  # runs of a method are told apart


RENAMED = {
    "a key of another version": ("[train]\n", "[train]\nlearning_speed = 0.1\n"),
    "no TOML at all": ("[train]", "[train"),
}


@pytest.mark.parametrize("change", RENAMED.values(), ids=RENAMED)
def test_a_run_whose_recipe_is_not_valid_is_shown_without_its_settings(tmp_path, change):
    place = make_runs(tmp_path, sets={"dev": 6})
    whole = read_report([place])
    path = place / "grpo" / "recipe.toml"
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    report = read_report([place])
    (note,) = [one for one in report.notes if "features" not in one]
    assert note.startswith(f"without its settings: {path}")
    assert [(run.label, run.recipe is None) for run in report.runs] == [
        ("Base model", True),
        ("DPH-F", False),
        ("GRPO", True),
    ]
    assert report.against_own == whole.against_own
    for key in ("r1", "r2"):
        found, before = (one.diagnoses[key]["sets"]["dev"] for one in (report, whole))
        assert found["problems"] == before["problems"]
    page = write_report(report, tmp_path / "page.html").path.read_text("utf-8")
    assert note in html.unescape(page)
