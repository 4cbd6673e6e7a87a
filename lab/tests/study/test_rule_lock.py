import json
from dataclasses import replace

import pytest

from dph.errors import DataError
from lab.study.outputs import write_outputs
from lab.study.planner import Planner
from lab.study.rows import read_rows
from lab.study.rule_lock import current_lock, locked_choices, start_with_new_rule
from lab.study.settings import load_study
from small_study import RULE, STUDY

OTHER = RULE.replace("[choose]", "[choose]\ntie = 0.01")


def test_the_lock_holds_the_whole_rule_and_the_seeds(small, finished):
    _, places, _ = finished
    lock = json.loads(places.lock.read_text())
    assert lock["rule_sha256"] == small.rule_sha256
    assert lock["seeds_report"] == [0, 1, 2]
    assert lock["rule"] == small.rule.model_dump(mode="json")


def test_a_clone_without_the_lock_still_knows_which_rule_its_report_runs_obey(write, finished):
    _, places, rows = finished
    places.lock.unlink()
    with pytest.raises(DataError, match="the rule changed after runs on the report seeds"):
        current_lock(load_study(write(rule=OTHER)), places, rows)


def test_what_was_chosen_stays_chosen_whatever_becomes_of_the_development_runs(
    small, finished, report
):
    _, places, rows = finished
    plan = report.plan
    write_outputs(report, places, rows)
    assert locked_choices(places) == dict(plan.choices)
    reported = {run: row for run, row in rows.items() if row.seed < 100}
    without = Planner(small).plan(reported)
    assert ("sql", "dph_f") not in without.choices
    again = Planner(small, locked_choices(places)).plan(reported)
    assert again.choices == plan.choices
    best = plan.choices["sql", "dph_f"]
    worse = {
        run: replace(row, scores=tuple(replace(s, value=0.0) for s in row.scores))
        if row.seed >= 100 and row.strength == best.chosen.strength
        else row
        for run, row in rows.items()
    }
    assert Planner(small).plan(worse).choices != plan.choices
    assert Planner(small, locked_choices(places)).plan(worse).choices == plan.choices


def test_another_grid_is_chosen_from_anew(write, finished, report):
    _, places, rows = finished
    write_outputs(report, places, rows)
    longer = load_study(write(STUDY.replace("[0.3, 1.0]", "[0.3, 1.0, 3.0]")))
    found = Planner(longer, locked_choices(places)).plan(rows)
    assert ("sql", "GRPO") in found.choices
    assert ("sql", "dph_f") not in found.choices


def test_other_seeds_after_report_runs_are_refused(write, finished):
    _, places, rows = finished
    more = load_study(write(STUDY.replace("[0, 1, 2]", "[0, 1, 2, 3]")))
    with pytest.raises(DataError, match=r"seeds_report changed .* it was \[0, 1, 2\], now"):
        current_lock(more, places, rows)
    assert start_with_new_rule(more, places) == places  # the rule is the same


def test_a_new_rule_has_a_directory_with_the_same_rows_and_says_what_it_replaced(
    write, small, finished, report
):
    _, places, rows = finished
    write_outputs(report, places, dict([*rows.items()][:5]))
    (places.out / "shares").mkdir()
    places.parquet.rename(places.out / "shares" / "card.parquet")  # five rows of another machine
    changed = load_study(write(rule=OTHER))
    fresh = start_with_new_rule(changed, places)
    assert fresh.out.name == f"small-{changed.rule_sha256[:8]}"
    assert read_rows(fresh) == rows
    lock = current_lock(changed, fresh, rows)
    assert lock.replaces == (small.rule_sha256,)
    assert small.rule_sha256[:12] in lock.note
    assert "after runs on the report seeds had been made" in lock.note
    assert start_with_new_rule(changed, places).out == fresh.out  # and once more goes on there


def test_a_lock_that_is_no_table_is_bad_input(small, finished):
    _, places, rows = finished
    places.lock.write_text("[]")
    with pytest.raises(DataError, match=r"rule\.lock\.json is damaged: restore it; got \[\]"):
        current_lock(small, places, rows)
