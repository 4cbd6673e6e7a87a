"""What was kept and gained, and the sets that the rule does not choose by."""

from dataclasses import replace

import pytest

from lab.study.outputs import make_report
from lab.study.rows import Score
from lab.study.rule_lock import current_lock
from lab.study.tables import forgetting_tables


def with_more(row, *more):
    return replace(row, scores=(*row.scores, *more))


@pytest.fixture
def report_of(small, finished):
    planner, places, rows = finished

    def made(*more):
        scored = {name: with_more(row, *more) for name, row in rows.items()}
        lock = current_lock(small, places, scored)
        return make_report(small, planner.plan(scored), scored, lock)

    return made


def score(of, metric, value, k=None):
    return Score(set=of, metric=metric, k=k, value=value, problems=10)


def test_nothing_is_shown_of_what_no_run_has(report_of):
    assert list(forgetting_tables(report_of())) == []


def test_kept_and_gained_are_means_over_the_report_seeds(report_of):
    (table,) = forgetting_tables(
        report_of(score("in_domain", "keep", 0.9), score("in_domain", "explore", 0.25))
    )
    assert table.name == "retention-sql"
    by_label = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(by_label) == {"base", "GRPO", "dph_f", "rkl"}
    assert by_label["GRPO"]["in domain: keep"] == "90.0 ± 0.0"
    assert by_label["dph_f"]["in domain: explore"] == "25.0 ± 0.0"
    assert by_label["dph_f"]["cross domain: keep"] == "-"


def test_sets_that_the_rule_does_not_choose_by_have_a_table_of_their_own(report_of):
    (table,) = forgetting_tables(
        report_of(score("sums", "greedy", 0.5), score("sums", "mean", 0.4))
    )
    assert table.name == "elsewhere-sql"
    assert table.columns == ("method", "sums: greedy", "sums: mean@1", "sums: pass@16")
    assert {row[1:] for row in table.rows} == {("50.0 ± 0.0", "40.0 ± 0.0", "-")}
