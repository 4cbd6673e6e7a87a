"""A study whose runs are arithmetic: its files, and jobs that are done when they are waited for."""

import study_stub
from dph._processes.jobs.processes import JobEnd

STUDY = """
rule = "rule.toml"
[study]
name = "small"
seeds_development = [100, 101]
seeds_report = [0, 1, 2]
learning_rate_of = "GRPO"
[[worlds]]
task = "sql"
edition = 2
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

    def wait(self):
        job = self.waiting.pop(0)
        if any(text in job.id for text in self.fails):
            return JobEnd(job.id, "it was told to fail")
        study_stub.execute(job.payload)
        return JobEnd(job.id, "")

    def close(self):
        self.closed = True
