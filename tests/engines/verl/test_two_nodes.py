"""Two raylets of this machine as two nodes: one is lost, and the same command continues."""

import json
import shutil
import tempfile
import time
from collections import Counter

import pyarrow.parquet as pq
import pytest
from ray.cluster_utils import Cluster

from dph.cli import main
from dph.engines.verl.mixing import stored_digest
from dph.runs.presample.pool import load_pool
from dph.runs.train.rows import rehearsal_of_step
from dph.tasks.problems import load_problems
from engines.verl.session import Session, small_session
from engines.verl.small_world import build_small_world
from engines.verl.test_run_recipe import RECIPE

pytestmark = pytest.mark.slow

SAMPLES, STORED, ROLLOUTS, STEPS = 4, 6, 4, 3
NODE = {"num_cpus": 8, "num_gpus": 1, "object_store_memory": 200 * 2**20}
JOIN = ("ray_kwargs.ray_init.num_cpus=null", "~ray_kwargs.ray_init.num_gpus", "trainer.nnodes=2")
"""A cluster knows its own resources."""


class Nodes:
    """A head, and a second node that can be lost and replaced."""

    def __init__(self):
        self.cluster = Cluster(
            initialize_head=True, head_node_args={**NODE, "include_dashboard": False}
        )
        self.second = self.cluster.add_node(**NODE)

    def lose(self):
        self.cluster.remove_node(self.second, allow_graceful=False)

    def replace(self):
        self.second = self.cluster.add_node(**NODE)


@pytest.fixture(scope="module")
def nodes():
    """The cluster that commands join. Ray's sockets need a short path."""
    place = tempfile.mkdtemp(prefix="dph", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", place)
        patch.setenv("RAY_raylet_start_wait_time_s", "300")
        found = Nodes()
        patch.setenv("RAY_ADDRESS", found.cluster.address)
        yield found
        found.cluster.shutdown()
        Session(place, place, [])._kill_ray()
    shutil.rmtree(place, ignore_errors=True)


def lose_a_node(nodes, session, module, *words, name, once):
    """Start a command, lose a node ``once`` something is there, wait for the command to fail."""
    deadline = time.monotonic() + 600
    with session.started(module, *words, *JOIN, ranks=1, name=name) as process:
        while not once():
            assert process.poll() is None, session.log(name).read_text()[-6000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        nodes.lose()
        assert process.wait(timeout=300) != 0
    nodes.replace()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Commands on a small world with a recipe of it."""
    directory, ray = tmp_path_factory.mktemp("world"), tempfile.mkdtemp(prefix="dph", dir="/tmp")
    build_small_world(directory)
    (directory / "small.toml").write_text(RECIPE)
    yield small_session(directory, ray)
    shutil.rmtree(ray, ignore_errors=True)


def test_pre_sampling_continues_after_the_loss_of_a_node(session, nodes):
    split = (f"dph.samples={SAMPLES}", f"dph.threshold={SAMPLES}", "dph.chunk_size=3")
    part = session.directory / "pool.partial"
    lose_a_node(
        nodes, session, "presample", *split, name="lost", once=lambda: any(part.glob("*.parquet"))
    )
    kept = pq.read_table(sorted(part.glob("*.parquet"))[0])
    session.run("presample", *split, *JOIN, ranks=1, name="found")
    require_whole_pool(session.directory, kept)


def test_training_continues_after_the_loss_of_a_node(session, nodes):
    world = session.directory
    assert main(["presample", f"{world}/small.toml", "--out", f"{world}/own"]) == 0
    train = (
        "dph.eta=0.2",
        f"dph.rehearsal_per_step={STORED}",
        f"dph.pool={world}/own/pool",
        "dph.problems=all",
        "data.train_batch_size=6",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        f"trainer.total_training_steps={STEPS}",
        "trainer.save_freq=1",
        f"trainer.rollout_data_dir={world}/rollouts",
    )
    latest = world / "checkpoints" / "latest_checkpointed_iteration.txt"
    once = lambda: latest.exists() and session.metrics("before")  # noqa: E731
    lose_a_node(nodes, session, "train", *train, name="before", once=once)
    session.run("train", *train, *JOIN, ranks=1, name="after")
    require_every_row(world, session)


def require_whole_pool(world, kept):
    samples = pq.read_table(world / "pool" / "samples.parquet")
    names = samples.select(["problem_id", "sample_index"]).to_pylist()
    counts = Counter(row["problem_id"] for row in names)
    expected = {problem.problem_id for problem in load_problems(world / "problems.jsonl")}
    assert counts == dict.fromkeys(expected, SAMPLES + 1)
    # What was drawn before the loss is kept, to the bit.
    assert kept.num_rows
    assert samples.slice(0, kept.num_rows).equals(kept.cast(samples.schema))


def require_every_row(world, session):
    """An epoch over both commands: every problem once, each step with its stored answers."""
    pool, metrics = (
        load_pool(world / "own" / "pool"),
        session.metrics("before") | session.metrics("after"),
    )
    assert sorted(metrics) == list(range(1, STEPS + 1))
    for step, logged in metrics.items():
        assert logged["actor/dph/policy_rows"] == 6 * ROLLOUTS
        expected = rehearsal_of_step(pool.rehearsal, STORED, step, seed=0)
        assert logged["actor/dph/stored_digest"] == stored_digest(expected)
    rows = [
        json.loads(line)
        for step in metrics
        for line in (world / "rollouts" / f"{step}.jsonl").read_text().splitlines()
    ]
    problems = load_problems(world / "problems.jsonl")
    assert Counter(row["input"] for row in rows) == {p.prompt: ROLLOUTS for p in problems}
