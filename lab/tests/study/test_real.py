import os
import shutil
import signal
import threading
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dph.errors import TrainingError
from dph.runs.progress import Silent
from lab.study.outputs import make_report, write_outputs
from lab.study.planner import Planner
from lab.study.rows import read_rows
from lab.study.rule_lock import current_lock, default_places
from lab.study.runner import Runner, core_jobs
from lab.study.settings import load_study

STUDY = """
rule = "rule.toml"
[study]
name = "tiny"
seeds_development = [7]
seeds_report = [8]
[budget]
steps = 2
problems_per_step = 4
samples = 16
checkpoint_every = 1
score_every = 1
[[worlds]]
task = "sql"
sizes = { train = 24, in_domain = 4, cross_domain = 4, arithmetic = 2 }
base_steps = 120
settings = { "presample.threshold" = 1 }
[[methods]]
name = "grpo"
[[methods]]
name = "dph_f"
strengths = [0.3]
"""
RULE = '[choose]\nsets = ["in_domain"]\n'


def study_in(directory):
    directory.mkdir(exist_ok=True)
    (directory / "STUDY.toml").write_text(STUDY)
    (directory / "rule.toml").write_text(RULE)
    study = load_study(directory / "STUDY.toml")
    return Planner(study), default_places(study, None)


def finish(planner, places, jobs=None):
    rows = Runner(planner, places, jobs or core_jobs(2, places)).run(Silent())
    lock = current_lock(planner.study, places, rows)
    write_outputs(make_report(planner.study, planner.plan(rows), rows, lock), places, rows)
    return places.parquet.read_bytes()


def finish_by_shares(planner, places):
    """Do shares, each longer than the last one; the bytes, and the minutes of a next one."""
    minutes = 0.1
    while planner.plan(rows := read_rows(places)).missing(rows):
        assert minutes < 10
        Runner(planner, places, core_jobs(2, places), minutes=minutes).run(Silent())
        minutes *= 3
    return finish(planner, places), minutes


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The directory of the study when all of it was done in one go."""
    directory = tmp_path_factory.mktemp("whole")
    finish(*study_in(directory))
    return directory


@pytest.mark.slow
def test_real_runs_killed_deleted_and_done_by_shares_end_with_the_same_bytes(whole, tmp_path):
    planner, places = study_in(tmp_path / "killed")
    jobs = core_jobs(2, places)
    killer = threading.Thread(target=_kill_soon, args=(jobs, places), daemon=True)
    killer.start()
    with pytest.raises(Exception, match="of the study's jobs failed"):
        Runner(planner, places, jobs).run(Silent())
    for path in list(places.rows.glob("*.dph_f*")):
        path.unlink()
    shutil.rmtree(places.out / "work")
    found, minutes = finish_by_shares(planner, places)
    assert found == study_in(whole)[1].parquet.read_bytes()
    assert minutes > 0.3
    table = pq.read_table(places.parquet).to_pylist()
    assert {row["method"] for row in table} == {"base", "grpo", "dph_f"}
    stored = {row["method"]: row["stored"] for row in table}
    assert stored == {"base": 0, "grpo": 0, "dph_f": 24 * 9}
    assert {row["rollouts"] for row in table if row["method"] != "base"} == {2 * 4 * 8}
    of_seed = {(row["seed"], row["base_sha256"]) for row in table}
    assert len(of_seed) == 2
    assert {(row["method"], row["step"]) for row in table} == {
        (method, step) for method in ("grpo", "dph_f") for step in (None, 1)
    } | {("base", None)}
    assert all(len(digest) == 64 for _, digest in of_seed)


@pytest.mark.slow
def test_a_base_model_that_is_not_the_one_of_the_rows_is_refused(whole, tmp_path):
    planner, places = study_in(shutil.copytree(whole, tmp_path / "elsewhere"))
    other = "0" * 64
    table = pq.read_table(places.parquet)
    digests = [
        other if seed == 8 else digest
        for seed, digest in zip(
            *(table[n].to_pylist() for n in ("seed", "base_sha256")), strict=True
        )
    ]
    column = table.schema.get_field_index("base_sha256")
    changed = table.set_column(column, table.schema.field(column), pa.array(digests))
    lost = pc.match_substring(changed["run"], "s8.grpo")
    pq.write_table(changed.filter(pc.invert(lost)), places.parquet)
    shutil.rmtree(places.out / "work")
    with pytest.raises(TrainingError, match=rf"seed 8 of sql.*{other}, and this machine made"):
        finish(planner, places)


def _kill_soon(jobs, places):
    """Kill the children that run as soon as the first row is there."""
    while not list(places.rows.glob("*.json")):
        time.sleep(0.1)
    time.sleep(1)
    while not (children := list(jobs._running.values())):
        time.sleep(0.1)
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
