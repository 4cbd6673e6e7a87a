"""Runs of another length are compared with the reference's method of that length."""

from statistics import fmean

import pytest

from dph.runs.progress import Silent
from lab.study.outputs import make_report
from lab.study.planner import Planner
from lab.study.rule_lock import current_lock, default_places
from lab.study.runner import Runner
from lab.study.settings import load_study
from lab.study.tables import all_tables
from small_study import STUDY, InstantJobs

LONGER = """
[[methods]]
name = "dph_f"
label = "dph_f, 3x"
strength_of = "dph_f"
steps = 120
"""
REFERENCE = """
[[methods]]
name = "grpo"
label = "GRPO, 3x"
learning_rate_of = "GRPO"
steps = 120
"""


@pytest.fixture
def tables(write):
    def of(text):
        study = load_study(write(text))
        planner, places = Planner(study), default_places(study, None)
        rows = Runner(planner, places, InstantJobs()).run(Silent())
        lock = current_lock(study, places, rows)
        report = make_report(study, planner.plan(rows), rows, lock)
        return report, {table.name: table for table in all_tables(report)}

    return of


def test_a_longer_method_is_shown_beside_the_reference_of_its_length_by_hand(tables):
    report, by_name = tables(STUDY + LONGER + REFERENCE)
    (name,) = [name for name in by_name if "3x" in name]
    in_power = [row[1] for row in by_name["power"].rows]
    assert list(dict.fromkeys(in_power)) == ["GRPO", "GRPO, 3x"]
    table = by_name[name]
    assert table.title == "Minus GRPO, 3x of the same seed, on sql"
    ((label, first, *_),) = table.rows
    long, reference = (
        report.results.values("sql", which, "greedy", ["in_domain"])
        for which in ("dph_f, 3x", "GRPO, 3x")
    )
    mean = fmean(100 * (long[seed] - reference[seed]) for seed in (0, 1, 2))
    assert (label, first.split(" ± ")[0]) == ("dph_f, 3x", f"{mean:+.1f}")


@pytest.mark.parametrize("more", ["", LONGER, REFERENCE])
def test_without_both_there_is_no_such_table(tables, more):
    _, by_name = tables(STUDY + more)
    assert not [name for name in by_name if "3x" in name]
