"""Models at other temperatures: what is scored, what a rule may ask for, and the tables."""

from dataclasses import replace
from statistics import fmean

import pytest

from dph.errors import SettingsError
from dph.runs.progress import Silent
from lab.study.outputs import make_report
from lab.study.planner import Planner, require_rule_fits
from lab.study.rule_lock import current_lock, default_places
from lab.study.runner import Runner
from lab.study.settings import BudgetSettings, RuleSettings, at_temperature, load_study
from lab.study.sites import Site
from lab.study.tables import all_tables
from lab.study.temperature_tables import at, best_temperatures
from small_study import STUDY, InstantJobs

BUDGET = "[budget]\ntemperatures = [0.4, 0.7]\n"
FOLLOWER = """
[[methods]]
name = "grpo"
label = "follower"
learning_rate_of = "GRPO"
settings = { "objective.clip_high" = 0.3 }
"""
BETTER = {"GRPO": (0.0, 0.02), "dph_f": (0.03, 0.01), "rkl": (-0.1, -0.1), "base": (0.01, 0.05)}
"""What answers at 0.4 and at 0.7 have more than at the evaluation's own temperature."""


def cooler(row, label):
    """The row with its scores at 0.4 and 0.7: those of 1 and what ``BETTER`` says."""
    more = [
        replace(score, metric=at_temperature(score.metric, t), value=score.value + gain)
        for t, gain in zip((0.4, 0.7), BETTER[label], strict=True)
        for score in row.scores
        if score.metric in ("mean", "pass_at_k") and score.value is not None
    ]
    return replace(row, scores=(*row.scores, *more))


@pytest.fixture
def report(write):
    study = load_study(write(STUDY + FOLLOWER + BUDGET))
    planner, places = Planner(study), default_places(study, None)
    rows = Runner(planner, places, InstantJobs()).run(Silent())
    label = {"grpo": "GRPO"}
    rows = {run: cooler(row, label.get(row.method, row.method)) for run, row in rows.items()}
    return make_report(study, planner.plan(rows), rows, current_lock(study, places, rows))


def test_each_model_has_the_temperature_that_is_best_on_the_development_seeds(report):
    assert best_temperatures(report, "sql-2") == {
        "base": 0.7,
        "GRPO": 0.7,
        "dph_f": 0.4,
        "rkl": None,
        "follower": 0.7,
    }


def test_scores_and_differences_are_those_at_each_ones_own_temperature(report):
    by_name = {table.name: table for table in all_tables(report)}
    scores, differences = (by_name[f"temperatures-sql-2{end}"] for end in ("", "-differences"))
    place = scores.columns.index("in domain: mean@1")
    cells = {row[0]: (row[1], row[place].split(" ± ")[0]) for row in scores.rows}
    usual = {
        label: list(report.results.values("sql-2", label, "mean", ["in_domain"]).values())
        for label in cells
    }
    for label, gain in (("rkl", 0.0), ("dph_f", 0.03), ("GRPO", 0.02)):
        assert cells[label][1] == f"{100 * (fmean(usual[label]) + gain):.1f}"
    assert {label: cell[0] for label, cell in cells.items()} == {
        "base": "0.7", "GRPO": "0.7", "dph_f": "0.4", "rkl": "usual", "follower": "0.7",
    }  # fmt: skip
    (found,) = [row[place].split(" ± ")[0] for row in differences.rows if row[0] == "dph_f"]
    expected = fmean(usual["dph_f"]) + 0.03 - fmean(usual["GRPO"]) - 0.02
    assert found == f"{100 * expected:+.1f}"


def test_without_temperatures_there_is_no_such_table(small, finished):
    planner, places, rows = finished
    plain = make_report(small, planner.plan(rows), rows, current_lock(small, places, rows))
    assert not [t.name for t in all_tables(plain) if t.name.startswith("temperatures")]
    assert best_temperatures(plain, "sql-2")["GRPO"] is None


def test_a_rule_may_ask_for_a_temperature_that_the_budget_has():
    site = Site(name="w", sets=("test",))
    rule = RuleSettings.model_validate({"choose": {"metric": "greedy + pass@16 at 0.7"}})
    budget = BudgetSettings(temperatures=(0.4, 0.7))
    require_rule_fits(rule, [site], {"w": (16,)}, budget)
    with pytest.raises(SettingsError, match=r"pass@16 at 0\.7; budget\.temperatures is 0\.4$"):
        require_rule_fits(rule, [site], {"w": (16,)}, BudgetSettings(temperatures=(0.4,)))
    with pytest.raises(SettingsError, match=r"budget\.temperatures is not set"):
        require_rule_fits(rule, [site], {"w": (16,)}, BudgetSettings())
    with pytest.raises(ValueError, match=r"unknown metric 'greedy at 0\.7'"):
        RuleSettings.model_validate({"choose": {"metric": "greedy at 0.7"}})
    with pytest.raises(ValueError, match=r"unknown metric 'mean at \.\.'"):
        RuleSettings.model_validate({"choose": {"metric": "mean at .."}})
    with pytest.raises(ValueError, match="more than once"):
        BudgetSettings(temperatures=(0.4, 0.4))


def test_a_metric_at_a_temperature_leaves_the_greedy_answer_as_it_is():
    assert at("greedy + mean + maj@16", 0.4) == "greedy + mean at 0.4 + maj@16 at 0.4"
    assert at("greedy + mean", None) == "greedy + mean"
    assert at("pass@16 at 0.7 + mean", 0.4) == "pass@16 at 0.7 + mean at 0.4"


def test_rows_that_lack_a_temperature_have_no_line(write):
    study = load_study(write(STUDY + BUDGET))
    planner, places = Planner(study), default_places(study, None)
    rows = Runner(planner, places, InstantJobs()).run(Silent())
    report = make_report(study, planner.plan(rows), rows, current_lock(study, places, rows))
    assert "GRPO" not in best_temperatures(report, "sql-2")
    assert not [t.name for t in all_tables(report) if t.name.startswith("temperatures")]
