"""Pre-sampling as a stage of a run: pools beside each other, split again, shared by seeds."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from dph.errors import CheckpointError, DataError, PoolError
from dph.model.sampler.graded import GradedSampler
from dph.runs.plan import open_plan
from dph.runs.presample.pool import load_pool
from dph.runs.presampling_stage import presample_stage
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.training_stage import train_stage

HOLD = """
import sys
from pathlib import Path
from dph.runs.presample.making import only_maker
with only_maker(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


class Told(Silent):
    """Keeps what a stage says."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


@pytest.fixture
def presample(make_recipe, tmp_path):
    """Pre-sample the letter task with some settings of ``[presample]``."""

    def run(directory="run", *, progress=None, **settings):
        with open_plan(make_recipe(presample=settings), tmp_path / directory) as plan:
            return presample_stage(plan, progress or Silent())

    return run


@pytest.fixture
def train(make_recipe, tmp_path):
    """Train on the letter task with some settings of ``[presample]``."""

    def run(directory="run", *, presample, **sections):
        with open_plan(make_recipe(presample=presample, **sections), tmp_path / directory) as plan:
            return train_stage(plan, Silent())

    return run


@pytest.fixture
def nothing_is_drawn(monkeypatch):
    """From the call on, drawing is an error."""

    def start():
        monkeypatch.setattr(GradedSampler, "__call__", lambda *_, **__: pytest.fail("drawn"))

    return start


@pytest.fixture
def another_process():
    """Another process that holds a pool."""
    held = []

    def hold(path):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        held.append(process)
        assert process.stdout.readline() == "held\n"

    yield hold
    for process in held:
        process.communicate("\n", timeout=60)


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_a_pool_beside_another_that_is_being_written_is_not_blocked(
    presample, tmp_path, another_process
):
    another_process(tmp_path / "pools" / "a")
    assert presample(pool=tmp_path / "pools" / "b").counts.prompts == 24


def test_a_pool_that_another_process_writes_is_refused_by_name(
    presample, tmp_path, another_process
):
    another_process(tmp_path / "pools" / "a")
    with pytest.raises(DataError, match=r"is making the pool .*pools/a;"):
        presample(pool=tmp_path / "pools" / "a")
    assert not (tmp_path / "pools" / "a").exists()


def test_another_threshold_splits_a_finished_pool_again_and_draws_nothing(
    presample, tmp_path, nothing_is_drawn
):
    presample(threshold=1)
    presample("fresh", threshold=3)
    nothing_is_drawn()
    told = Told()
    again = presample(threshold=3, progress=told)
    assert again.rule.threshold == 3
    assert files_of(tmp_path / "run" / "pool") == files_of(tmp_path / "fresh" / "pool")
    (line,) = told.lines
    assert "threshold 1 -> 3" in line
    assert "nothing is drawn" in line


def test_a_pool_split_there_and_back_is_the_first_one_again(presample, tmp_path):
    presample(threshold=1)
    first = files_of(tmp_path / "run" / "pool")
    presample(threshold=2, wrong_final="explore")
    assert files_of(tmp_path / "run" / "pool") != first
    presample(threshold=1)
    assert files_of(tmp_path / "run" / "pool") == first


def test_an_unfinished_pool_goes_on_with_another_threshold(presample, tmp_path, monkeypatch):
    monkeypatch.setattr("dph.runs.presample.presample.CHUNK", 5)
    presample("fresh", threshold=3)
    draw, calls = GradedSampler.__call__, []

    def killed(sampler, problems, **options):
        calls.append(len(problems))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return draw(sampler, problems, **options)

    monkeypatch.setattr(GradedSampler, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        presample(threshold=1)
    presample(threshold=3)
    assert calls == [5, 5, 5, 5, 5, 4]  # killed in the third, which comes again; no piece twice
    assert files_of(tmp_path / "run" / "pool") == files_of(tmp_path / "fresh" / "pool")


def test_a_pool_that_a_run_was_trained_on_is_not_split_again(presample, train, tmp_path):
    presample(threshold=1)
    train(presample={"threshold": 1})
    before = files_of(tmp_path / "run" / "pool")
    for directory, pool in (("run", None), ("other", tmp_path / "run" / "pool")):
        with pytest.raises(PoolError, match="a run was trained on the pool"):
            presample(directory, threshold=2, pool=pool)
    assert files_of(tmp_path / "run" / "pool") == before
    assert train(presample={"threshold": 1}, train={"steps": 3}).step == 3


def test_a_run_never_goes_on_with_a_pool_that_was_split_again(presample, train, tmp_path):
    pool = tmp_path / "shared"
    presample(threshold=1, pool=pool)
    train(presample={"threshold": 1, "pool": pool})
    presample("other", threshold=2, pool=pool)
    longer = {"steps": 3}
    with pytest.raises(PoolError, match=r"threshold was 2, this run has 1.*`dph presample`"):
        train(presample={"threshold": 1, "pool": pool}, train=longer)
    with pytest.raises(CheckpointError, match=r"presample.threshold was 1, now 2"):
        train(presample={"threshold": 2, "pool": pool}, train=longer)


def test_a_whole_run_splits_no_pool_again_that_others_may_share(make_recipe, presample, tmp_path):
    pool = tmp_path / "shared"
    presample(threshold=1, pool=pool)
    before = files_of(pool)
    with (
        open_plan(make_recipe(presample={"threshold": 2, "pool": pool}), tmp_path / "run") as plan,
        pytest.raises(PoolError, match="threshold was 1, this run has 2"),
    ):
        run_stages(plan, Silent())
    assert files_of(pool) == before


def test_four_training_seeds_share_one_pool(make_recipe, tmp_path):
    pool = tmp_path / "shared"
    shared = {"pool": pool, "seed": 5}
    weights, made = set(), set()
    for seed in range(4):
        recipe = make_recipe(presample=shared).model_copy(update={"seed": seed})
        with open_plan(recipe, tmp_path / f"run{seed}") as plan:
            manifest = presample_stage(plan, Silent())
            trained = train_stage(plan, Silent())
        made.add((pool / "manifest.json").stat().st_mtime_ns)
        weights.add((trained.checkpoint / "model.safetensors").read_bytes())
    assert manifest.source.seed == 5
    assert (len(made), len(weights)) == (1, 4)


def test_the_seed_of_a_pool_is_the_recipes_unless_it_has_its_own(make_recipe, tmp_path):
    seeds = []
    for own in ({}, {"seed": 7}):
        recipe = make_recipe(presample=own).model_copy(update={"seed": 3})
        with open_plan(recipe, tmp_path / str(own)) as plan:
            seeds.append(presample_stage(plan, Silent()).source.seed)
    assert seeds == [3, 7]


def test_naming_the_seed_that_holds_anyhow_is_no_other_run(presample, train):
    presample(threshold=1)
    train(presample={"threshold": 1})
    assert train(presample={"threshold": 1, "seed": 0}, train={"steps": 3}).step == 3


def test_a_pool_with_another_time_limit_is_of_another_source(make_recipe, presample, tmp_path):
    presample(threshold=1)
    with (
        open_plan(make_recipe(data={"verifier_timeout": 4.0}), tmp_path / "run") as plan,
        pytest.raises(PoolError, match=r"verifier timeout was 5.0, this run has 4.0"),
    ):
        presample_stage(plan, Silent())


def test_a_finished_pool_is_whole_with_every_sample_in_it(presample, tmp_path):
    presample(threshold=1)
    presample(threshold=2)
    pool = load_pool(tmp_path / "run" / "pool")
    assert pq.read_metadata(tmp_path / "run" / "pool" / "samples.parquet").num_rows == 24 * 5
    assert json.loads((tmp_path / "run" / "pool" / "manifest.json").read_text())["format"] == 3
    assert pool.manifest.counts.rehearsal == len(pool.rehearsal)
    assert all(sample.correct >= 2 for sample in pool.rehearsal)
