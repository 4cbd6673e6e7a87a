"""What was tried on the development seeds."""

import pytest

from lab.study.outputs import make_report
from lab.study.results import GridPlace, mean_of
from lab.study.rule_lock import current_lock


@pytest.fixture
def report(small, finished):
    planner, places, rows = finished
    return make_report(small, planner.plan(rows), rows, current_lock(small, places, rows))


def test_candidates_come_from_weak_to_strong_with_a_run_of_each_development_seed(report):
    found = report.results.tried("sql", "dph_f")
    assert [place.strength for place in found] == [0.3, 1.0]
    for place, of_place in found.items():
        assert sorted(row.seed for row in of_place) == [100, 101]
        assert {row.strength for row in of_place} == {place.strength}


def test_a_grid_of_learning_rates_has_no_strength(report):
    found = report.results.tried("sql", "GRPO")
    assert list(found) == [GridPlace(0.0, 0.0, 2e-4), GridPlace(0.0, 0.0, 5e-4)]


def test_the_mean_is_over_the_runs_of_which_a_metric_is_known(report):
    of_place = report.results.tried("sql", "dph_f")[GridPlace(0.3, 0.0, 2e-4)]
    values = [
        s.value for r in of_place for s in r.scores if (s.set, s.metric) == ("in_domain", "greedy")
    ]
    assert mean_of(of_place, "greedy", ["in_domain"]) == pytest.approx(sum(values) / 2)
    assert mean_of(of_place, "styles", ["in_domain"]) is None
    assert mean_of([], "greedy", ["in_domain"]) is None
