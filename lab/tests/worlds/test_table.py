import subprocess
import sys

import pytest

from dph.errors import SettingsError
from lab.study.outputs import make_report
from lab.study.plan import value_of
from lab.study.rule_lock import current_lock
from lab.study.tables import all_tables
from lab.worlds import WORLDS, world_kind
from letters_world.kind import KIND
from small_study import run_here


@pytest.fixture
def letters(monkeypatch):
    """The row, as a contributor would add it."""
    monkeypatch.setitem(WORLDS, "letters", KIND)
    return "letters"


def test_a_study_runs_on_it_with_its_optimizer_and_its_strengths(letters, tmp_path):
    planner, places, rows = run_here(tmp_path, letters, {"in_domain": 2})
    found = {row.method: row for row in rows.values()}
    assert found.keys() == {"base", "grpo"}
    assert (found["grpo"].world, found["grpo"].learning_rate) == ("letters", 3e-4)
    assert world_kind(letters).strengths["dph_f"] == 0.5
    for row in found.values():
        assert 0 <= value_of(row, "greedy + pass@16", KIND.sets) <= 2
    lock = current_lock(planner.study, places, rows)
    report = make_report(planner.study, planner.plan(rows), rows, lock)
    (scores,) = [table for table in all_tables(report) if table.name == "scores-letters"]
    assert any("pass@16" in column for column in scores.columns)


@pytest.mark.usefixtures("letters")
def test_an_unknown_task_is_refused_with_those_that_exist():
    with pytest.raises(SettingsError, match=r"no task 'chess'; choose one of sql, .*, letters$"):
        world_kind("chess")


def test_the_table_is_known_without_torch_and_numpy():
    code = "import sys, lab.worlds; print({'torch', 'numpy', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
