"""What ``--only`` asks for."""

import pytest

from dph.errors import SettingsError
from lab.study.costs import outlook
from lab.study.plan import wanted_runs
from lab.study.planner import Planner


def asked(study, *only):
    planner = Planner(study)
    return wanted_runs(only, study.file, planner.sites)


def test_several_of_a_kind_add_up_and_the_kinds_narrow_each_other(small, finished):
    planner, _, rows = finished
    plan = planner.plan(rows)
    by_hand = [run for run in plan.runs if run.label in ("GRPO", "base") and run.seed == 100]
    assert by_hand
    assert list(asked(small, "GRPO", "base", "100", "sql").of(plan).runs) == by_hand
    assert asked(small).of(plan) == plan


def test_what_is_undecided_is_counted_for_what_was_asked_alone(small):
    plan = Planner(small).plan({})
    # Two strengths of dph_f on two development seeds and one run on each of three report seeds.
    assert asked(small, "dph_f").of(plan).total == 2 * 2 + 3
    assert asked(small, "dph_f", "100").of(plan).total == 2
    assert asked(small, "base", "100").of(plan).total == 1


def test_the_parts_add_up_to_the_whole(small, finished):
    planner, _, rows = finished
    for plan in (planner.plan({}), planner.plan(rows)):
        labels = ["base", *(method.label for method in small.file.methods)]
        assert sum(asked(small, label).of(plan).total for label in labels) == plan.total


def test_the_outlook_is_of_what_was_asked(small, finished):
    planner, places, rows = finished
    plan = asked(small, "rkl").of(planner.plan(rows))
    lost = next(run.id for run in plan.runs)
    left = {name: row for name, row in rows.items() if name != lost}
    ahead = outlook(plan, places, left, 2)
    assert (ahead.finished, ahead.total, ahead.undecided) == (len(plan.runs) - 1, len(plan.runs), 0)


def test_what_is_not_in_the_study_is_refused(small):
    for name in ("sqlite", "7"):
        with pytest.raises(SettingsError, match=f"--only {name}: there is no such world, method"):
            asked(small, name)
