"""A study whose runs are arithmetic: its files, and jobs that are done when they are waited for."""

import study_stub
from dph._processes.jobs import JobEnd
from dph.runs.progress import Silent
from lab.study.execute import execute
from lab.study.planner import Planner
from lab.study.rule_lock import default_places
from lab.study.runner import Runner
from lab.study.settings import load_study

STUDY = """
rule = "rule.toml"
[study]
name = "small"
seeds_development = [100, 101]
seeds_report = [0, 1, 2]
learning_rate_of = "GRPO"
[[worlds]]
task = "sql"
[[methods]]
name = "grpo"
label = "GRPO"
learning_rates = [2e-4, 5e-4]
[[methods]]
name = "dph_f"
strengths = [0.3, 1.0]
[[methods]]
name = "rkl"
strengths = [0.1]
"""
RULE = """
[choose]
sets = ["in_domain", "cross_domain"]
[[compare]]
a = "dph_f"
b = "GRPO"
metric = "greedy + pass@16"
set = ["in_domain", "cross_domain"]
alternative = "greater"
[[compare]]
a = "dph_f"
b = "base"
metric = "pass@16"
set = "in_domain"
"""


class InstantJobs:
    """Does a job when it is waited for; ``started`` are the ids in order, ``fails`` fail."""

    def __init__(self, capacity=2, fails=()):
        self.capacity, self.fails = capacity, fails
        self.started, self.at_once, self.waiting, self.closed = [], [], [], False

    def start(self, job):
        assert len(self.waiting) < self.capacity
        self.started.append(job.id)
        self.waiting.append(job)
        self.at_once.append([waiting.payload for waiting in self.waiting])

    def wait(self, *, until):  # noqa: ARG002
        job = self.waiting.pop(0)
        if any(text in job.id for text in self.fails):
            return JobEnd(job.id, "it was told to fail")
        study_stub.execute(job.payload)
        return JobEnd(job.id, "")

    def close(self, *, patience=0.0):
        self.closed, self.patience = True, patience


class HereJobs:
    """Does a real job in this process, the next one when it is waited for."""

    capacity = 1

    def __init__(self):
        self.waiting = []

    def start(self, job):
        self.waiting.append(job)

    def wait(self, *, until):  # noqa: ARG002
        job = self.waiting.pop(0)
        execute(job.payload)
        return JobEnd(job.id, None)

    def close(self, *, patience=0.0):
        pass


TINY = """
rule = { choose = { sets = ["in_domain"], metric = "greedy" } }
[study]
name = "tiny"
seeds_report = SEEDS
[budget]
steps = 1
problems_per_step = 2
samples = 16
[[worlds]]
task = "TASK"
base_steps = 1
sizes = SIZES
settings = { "presample.threshold" = 1 }
[[methods]]
name = "grpo"
"""


def run_here(directory, task, sizes, seeds=(2,)):
    """Run a study of one step on a small world: its study, its plan's maker and its rows."""
    sets = ", ".join(f"{name} = {count}" for name, count in sizes.items())
    text = TINY.replace("TASK", task).replace("SIZES", f"{{ {sets} }}")
    text = text.replace("SEEDS", str(list(seeds)))
    directory.mkdir(exist_ok=True)
    (directory / "STUDY.toml").write_text(text)
    planner = Planner(load_study(directory / "STUDY.toml"))
    places = default_places(planner.study, None)
    return planner, places, Runner(planner, places, HereJobs()).run(Silent())
