"""Shares of a study, rows of other machines, and fronts of what their runs scored."""

import shutil
import time
from dataclasses import replace

import pytest

from dph.errors import DataError
from dph.runs.progress import Silent
from lab.study.execute import execute
from lab.study.outputs import make_report, write_outputs
from lab.study.planner import Planner
from lab.study.results import Results, planned_rows
from lab.study.rows import Places, Score, read_rows
from lab.study.runner import LAST_SECONDS, Runner
from lab.study.settings import load_study
from small_study import RULE, InstantJobs


class ShortJobs(InstantJobs):
    """A share's jobs: its minutes are over while the fourth is waited for."""

    def wait(self, *, until):
        assert until < time.monotonic() + 9 * 60 - 0.9 * LAST_SECONDS
        if len(self.started) > 3:
            raise TimeoutError
        return super().wait(until=until)


@pytest.fixture
def places_of(tmp_path):
    return lambda name: Places(tmp_path / name)


def test_shares_end_with_the_rows_of_a_whole_study(small, finished, places_of):
    planner, places, shares = Planner(small), places_of("shares"), 0
    while planner.plan(read_rows(places)).missing(read_rows(places)):
        jobs = ShortJobs(1)
        rows = Runner(planner, places, jobs, minutes=9).run(Silent())
        assert jobs.closed
        assert jobs.patience == LAST_SECONDS * 0.9
        shares += 1
    assert shares > 5
    assert rows == finished[2]


def test_the_device_and_the_known_processor_reach_every_job(small, finished, places_of):
    places, jobs = places_of("device"), InstantJobs()
    Runner(Planner(small), places, jobs, device="cuda").run(Silent())
    payloads = [payload for at_once in jobs.at_once for payload in at_once]
    assert {payload["device"] for payload in payloads} == {"cuda"}
    known = {payload["kind"]: payload["processor"] for payload in payloads}
    assert known == {"prepare": None, "run": next(iter(finished[2].values())).processor}
    work = {"work": str(places.out), "site": {"name": "sql", "recipe": None}, "seed": 7}
    with pytest.raises(DataError, match=r"seed 7 of sql: its rows were made on H200, this is"):
        execute({**work, "kind": "prepare", "device": "cpu", "processor": "H200"})


def test_the_table_of_another_machine_is_taken_in_once(report, finished, places_of):
    planner, places, rows = finished
    write_outputs(report, places, rows)
    here = places_of("here")
    (here.out / "shares").mkdir(parents=True)
    shutil.copyfile(places.parquet, here.out / "shares" / "card.parquet")
    assert read_rows(here) == rows
    write_outputs(report, here, read_rows(here))
    assert here.shares == []
    assert here.parquet.read_bytes() == places.parquet.read_bytes()
    write_outputs(report, places, rows)
    one = next(row for row in rows.values() if row.method == "grpo")
    moved = replace(one, versions="python 3.12, x86_64 AVX512, NVIDIA H200, CUDA 12.8")
    assert moved.processor == "AVX512, NVIDIA H200, CUDA 12.8"
    with pytest.raises(DataError, match="one kind of processor made them all"):
        Results(planned_rows(planner.plan(rows), {**rows, one.run: moved}))


def test_a_front_has_the_base_model_the_checkpoints_and_the_labels_that_the_rule_names(
    write, finished
):
    rule = RULE.replace('metric = "greedy + pass@16"', 'metric = "front@16"')
    study = load_study(write(rule=rule + '[fronts]\ndph_f = ["rkl"]\n'))
    plan = Planner(study).plan(finished[2])
    rows = {}
    for name, row in finished[2].items():
        at = {"base": (0.2, 0.6), "grpo": (0.4, 0.3), "dph_f": (0.3, 0.5), "rkl": (0.5, 0.2)}
        mean, many = at[row.method]
        of = [("mean", None, mean, None), ("pass_at_k", 16, many, None)]
        of += [("greedy", None, 0.5, None)]
        if row.method == "grpo":  # an earlier checkpoint
            of += [("mean", None, 0.3, 20), ("pass_at_k", 16, 0.4, 20)]
        scores = [
            Score(set=name, metric=metric, k=k, value=value, problems=10, step=step)
            for name in ("in_domain", "cross_domain")
            for metric, k, value, step in of
        ]
        rows[name] = replace(row, scores=tuple(scores))
    results = Results(planned_rows(plan, rows), study.rule.fronts)
    fronts = {
        label: results.estimate("sql", label, "front@16", ["in_domain"]).mean
        for label in ("base", "GRPO", "dph_f", "rkl")
    }
    assert fronts == pytest.approx(
        {
            "base": 0.2 * 0.6,
            "GRPO": 0.2 * 0.6 + 0.1 * 0.4 + 0.1 * 0.3,
            "dph_f": 0.2 * 0.6 + 0.1 * 0.5 + 0.2 * 0.2,
            "rkl": 0.2 * 0.6 + 0.3 * 0.2,
        }
    )
    # At equal mean@1 they are 0, 0.1 and 0.05 apart, at 0.2, 0.3 and 0.4.
    matched = {"metric": "matched@16", "sets": ["in_domain", "cross_domain"]}
    assert results.difference("sql", ("dph_f", "GRPO"), **matched).mean == pytest.approx(0.0625)
    assert results.difference("sql", ("dph_f", "GRPO"), "matched@16", ["elsewhere"]) is None
    report = make_report(study, plan, rows, None)
    assert "front@16" in report.metrics("sql")
    lacking = {name: row for name, row in rows.items() if row.method != "rkl"}
    results = Results(planned_rows(plan, lacking), study.rule.fronts)
    assert results.estimate("sql", "dph_f", "front@16", ["in_domain"]) is None
    assert results.difference("sql", ("dph_f", "GRPO"), **matched) is None
