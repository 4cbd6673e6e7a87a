"""The pictures of a study: which there are, and that what they draw is what the rows say."""

import pytest

from dph.lab.study.fronts import (
    OTHERS,
    draw_dots,
    draw_strengths,
    legend_label,
    looks_of,
    summary_over_seeds,
)
from dph.lab.study.outputs import make_report
from dph.lab.study.rule_lock import current_lock
from dph.lab.study.settings import with_settings
from dph.results.charts.palette import looks


@pytest.fixture
def report_of(small, finished):
    planner, places, rows = finished

    def made(shown=(), rows=rows):
        study = with_settings(small, {"shown": shown})
        return make_report(study, planner.plan(rows), rows, current_lock(study, places, rows))

    return made


def test_a_curve_is_the_means_over_report_seeds_with_the_bands_of_their_intervals(report_of):
    report = report_of()
    summary = summary_over_seeds(report, "sql-2", "GRPO", "in_domain")
    found = report.results.estimate("sql-2", "GRPO", "pass@16", ["in_domain"])
    low, high = summary["ci95"]["pass_at_16"]
    assert summary["pass_at_k"]["16"] == found.mean
    assert (low, high) == (max(0, found.mean - found.half), min(1, found.mean + found.half))


def test_methods_that_are_not_shown_are_grey_and_share_one_entry_of_the_legend(report_of):
    report = report_of(shown=("GRPO",))
    assert report.shown("sql-2") == ("base", "GRPO")
    chosen = looks_of(report)
    assert chosen["GRPO"] == looks(["grpo"])["grpo"]
    assert chosen["dph_f"] == chosen["rkl"] != chosen["base"]
    assert [legend_label(report, "sql-2", x) for x in ("GRPO", "dph_f", "rkl")] == [
        "GRPO",
        OTHERS,
        OTHERS,
    ]


def test_without_shown_every_method_has_its_own_look(report_of):
    chosen = looks_of(report_of())
    assert len(set(chosen.values())) == len(chosen) == 4


def test_no_picture_of_styles_where_no_run_has_any(report_of, tmp_path):
    assert draw_dots(report_of(), tmp_path) == []
    assert not list(tmp_path.glob("*.png"))


def test_no_picture_of_strengths_before_anything_was_tried(report_of, finished, tmp_path):
    assert draw_strengths(report_of(shown=("GRPO",)), finished[2], tmp_path) is None
    assert draw_strengths(report_of(), finished[2], tmp_path) == tmp_path / "strengths.png"
