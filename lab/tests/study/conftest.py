"""A small study whose runs are arithmetic."""

import pytest

from dph.runs.progress import Silent
from lab.study.__main__ import main
from lab.study.outputs import make_report
from lab.study.planner import Planner
from lab.study.rows import read_row_files
from lab.study.rule_lock import current_lock, default_places
from lab.study.runner import Runner
from lab.study.settings import load_study
from small_study import RULE, STUDY, InstantJobs


@pytest.fixture
def write(tmp_path):
    """``write(study, rule)`` -> the path of a STUDY.toml."""

    def files(study=STUDY, rule=RULE):
        (tmp_path / "rule.toml").write_text(rule)
        path = tmp_path / "STUDY.toml"
        path.write_text(study)
        return path

    return files


@pytest.fixture
def command(capsys):
    """``command("STUDY.toml", ...)`` -> the exit code, and what it printed."""

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def small(write):
    return load_study(write())


@pytest.fixture
def finished(small):
    """All rows of the small study, made by going through its plan."""
    planner, places = Planner(small), default_places(small, None)
    rows = Runner(planner, places, InstantJobs()).run(Silent())
    assert rows == read_row_files(places.rows)
    return planner, places, rows


@pytest.fixture
def report(small, finished):
    planner, places, rows = finished
    return make_report(small, planner.plan(rows), rows, current_lock(small, places, rows))
