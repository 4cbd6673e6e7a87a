"""The pictures of a study: which there are, and that what they draw is what the rows say."""

import pytest

from dph._base.files import make_directory
from dph.results.charts.palette import looks
from lab.study.outputs import OTHERS, StudyPictures, make_report, summary_over_seeds
from lab.study.rule_lock import current_lock
from lab.study.settings import with_settings


@pytest.fixture
def report_of(small, finished):
    planner, places, rows = finished

    def made(shown=(), rows=rows):
        study = with_settings(small, {"shown": shown})
        return make_report(study, planner.plan(rows), rows, current_lock(study, places, rows))

    return made


def test_a_curve_is_the_means_over_report_seeds_with_the_bands_of_their_intervals(report_of):
    report = report_of()
    summary = summary_over_seeds(report, "sql", "GRPO", "in_domain")
    found = report.results.estimate("sql", "GRPO", "pass@16", ["in_domain"])
    low, high = summary["ci95"]["pass_at_16"]
    assert summary["pass_at_k"]["16"] == found.mean
    assert (low, high) == (max(0, found.mean - found.half), min(1, found.mean + found.half))


def test_methods_that_are_not_shown_are_grey_and_share_one_entry_of_the_legend(report_of):
    report = report_of(shown=("GRPO",))
    assert report.shown("sql") == ("base", "GRPO")
    pictures = StudyPictures(report=report)
    chosen = pictures.looks
    assert chosen["GRPO"] == looks(["grpo"])["grpo"]
    assert chosen["dph_f"] == chosen["rkl"] != chosen["base"]
    assert [pictures.legend_label("sql", x) for x in ("GRPO", "dph_f", "rkl")] == [
        "GRPO",
        OTHERS,
        OTHERS,
    ]


def test_without_shown_every_method_has_its_own_look(report_of):
    chosen = StudyPictures(report=report_of()).looks
    assert len(set(chosen.values())) == len(chosen) == 4


def test_there_are_pictures_of_what_is_known_alone(report_of, tmp_path):
    names = ["fronts_greedy.png", "fronts_mean.png", "pass_at_k.png"]
    written = StudyPictures(report=report_of(shown=("GRPO",))).write(
        make_directory(tmp_path / "shown")
    )
    assert [path.name for path in written] == names  # no run has styles, GRPO has no strength
    written = StudyPictures(report=report_of()).write(make_directory(tmp_path / "all"))
    assert [path.name for path in written] == [*names, "strengths.png"]
    assert all(path.is_file() for path in written)
