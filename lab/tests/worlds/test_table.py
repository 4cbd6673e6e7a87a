"""The table of worlds: one folder and one row are a world everywhere (CONTRIBUTING shows it)."""

import json
import subprocess
import sys

import pytest

from dph._processes.jobs.processes import JobEnd
from dph.cli import main
from dph.errors import SettingsError
from dph.runs.progress import Silent
from lab.study.execute import execute
from lab.study.outputs import make_report
from lab.study.plan import value_of
from lab.study.planner import Planner
from lab.study.rule_lock import current_lock, default_places
from lab.study.runner import Runner
from lab.study.settings import load_study
from lab.study.tables import all_tables
from lab.worlds import WORLDS, world_kind
from lab.worlds.table import worlds_table
from letters_world.kind import KIND

STUDY = """
rule = "rule.toml"
[study]
name = "letters"
seeds_development = [1]
seeds_report = [2]
[budget]
steps = 1
problems_per_step = 2
samples = 16
votes = 5
[[worlds]]
task = "letters"
base_steps = 1
sizes = { in_domain = 2 }
[[methods]]
name = "grpo"
"""
RULE = '[choose]\nsets = ["in_domain"]\nmetric = "greedy"\n'


@pytest.fixture
def letters(monkeypatch):
    """The row, as a contributor would add it."""
    monkeypatch.setitem(WORLDS, "letters", {1: KIND})
    return "letters"


class HereJobs:
    """Does a job in this process, which knows the row; the next one when it is waited for."""

    capacity = 1

    def __init__(self):
        self.waiting = []

    def start(self, job):
        self.waiting.append(job)

    def wait(self):
        job = self.waiting.pop(0)
        execute(job.payload)
        return JobEnd(job.id, None)

    def close(self):
        pass


def test_the_quickstart_runs_on_it(letters, capsys, tmp_path):
    words = ["--task", letters, "--methods", "grpo", "--tiny", "--jobs", "1", "--json"]
    assert main(["quickstart", *words, "--out", str(tmp_path / "out")]) == 0
    assert list(json.loads(capsys.readouterr().out)["methods"]["grpo"]["sets"]) == list(KIND.sets)


def test_a_study_runs_on_it_with_its_optimizer_and_its_strengths(letters, tmp_path):
    (tmp_path / "STUDY.toml").write_text(STUDY)
    (tmp_path / "rule.toml").write_text(RULE)
    study = load_study(tmp_path / "STUDY.toml")
    planner = Planner(study)
    rows = Runner(planner, default_places(study, None), HereJobs()).run(Silent())
    found = {row.method: row for row in rows.values() if row.seed == 2}
    assert found.keys() == {"base", "grpo"}
    assert (found["grpo"].world, found["grpo"].learning_rate) == ("letters-1", 3e-4)
    assert world_kind(letters).strengths["dph_f"] == 0.5
    for row in found.values():
        assert 0 <= value_of(row, "maj@5", KIND.sets) <= 1
    lock = current_lock(study, default_places(study, None), rows)
    report = make_report(study, planner.plan(rows), rows, lock)
    (scores,) = [table for table in all_tables(report) if table.name == "scores-letters-1"]
    assert any("maj@5" in column for column in scores.columns)
    assert any("pass@16" in column for column in scores.columns)


def test_the_documentation_s_table_and_messages_name_it(letters):
    sizes = "`train` 40, `in_domain` 8, `cross_domain` 8, `unlabelled` 8"
    sets, optimizer = "`in_domain`, `cross_domain`", "`learning_rate` 0.0003"
    cells = ("`letters`", "1", KIND.summary, sets, sizes, optimizer)
    assert f"| {' | '.join(cells)} |" in worlds_table().splitlines()
    with pytest.raises(SettingsError, match=r"no task 'chess'; choose one of sql, .*, letters$"):
        world_kind("chess")
    with pytest.raises(SettingsError, match=r"^the task 'letters' has no world 2; it has: 1$"):
        world_kind(letters, 2)


def test_the_table_is_known_without_torch_and_numpy():
    code = "import sys, lab.worlds; print({'torch', 'numpy', 'transformers'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
