"""The study on the real world, as far as it can be known before anything runs."""

from pathlib import Path

from lab.study.candidates import number_of_candidates
from lab.study.planner import Planner
from lab.study.settings import load_study
from lab.worlds.real.kind import REAL

FILE = Path(__file__).parents[3] / "lab" / "benchmarks" / "real" / "STUDY.toml"
STUDY = load_study(FILE)
HALF = "GRPO, half rate"
"""The arm that chooses nothing: its rate is the one that most others chose."""


def test_every_arm_resolves_on_every_world_and_reports_on_eight_new_seeds():
    plan = Planner(STUDY).plan({})
    settings = STUDY.file.study
    assert len(settings.seeds_report) >= 8
    assert not set(settings.seeds_report) & {700, 701, 702}  # those of the gates
    assert {world.task for world in STUDY.file.worlds} <= REAL.keys()
    waiting = {(left.site.name, left.method.label) for left in plan.undecided}
    sites = {run.variant.site.name for run in plan.runs}
    assert waiting == {(site, label) for site in sites for label in STUDY.labels if label != HALF}


def test_every_arm_tries_as_many_values_or_takes_another_s_choice():
    tried = {
        method.label: number_of_candidates(method)
        for method in STUDY.file.methods
        if method.learning_rate_of is None and method.label != HALF
    }
    assert set(tried.values()) == {3}
    assert STUDY.file.settings["evaluate.k"] == [1, 4, 16, 32]
