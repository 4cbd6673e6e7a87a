"""Whole runs of unmodified verl: Ray, TransferQueue, agent loop, reward loop, FSDP2, on a CPU."""

import shutil
import tempfile
import time

import pyarrow.parquet as pq
import pytest

from dph.cli import main
from dph.engines.verl.mixing import stored_digest
from dph.model.loading import load_model
from dph.records import Outcome
from dph.runs.presample.pool import load_pool
from dph.runs.presample.tables import graded_rows
from dph.runs.train.rows import rehearsal_of_step
from engines.verl.session import small_session
from engines.verl.small_world import KNOWN, UNSURE, build_small_world
from engines.verl.test_run_recipe import RECIPE
from own_advantage import RELATIVE
from scored_completions import score_completions

pytestmark = pytest.mark.slow

SAMPLES, THRESHOLD, STORED = 4, 4, 6
"""The first two as in the recipe."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The small world, with a recipe of it."""
    directory = tmp_path_factory.mktemp("world")
    build_small_world(directory)
    (directory / "recipe.toml").write_text(RECIPE)
    return directory


@pytest.fixture(scope="module")
def session(world):
    """Two commands' worth of overrides. Ray's sockets need a short path."""
    ray = tempfile.mkdtemp(prefix="dph", dir="/tmp")
    yield small_session(world, ray)
    shutil.rmtree(ray, ignore_errors=True)


@pytest.fixture(scope="module")
def pool(session, world):
    """The pool that the cluster made, on two ranks."""
    split = (f"dph.samples={SAMPLES}", f"dph.threshold={THRESHOLD}", "dph.chunk_size=10")
    session.run("presample", *split, ranks=2, name="presample")
    return load_pool(world / "pool")


def dph(world, *words):
    assert main([*words[:1], str(world / "recipe.toml"), *words[1:]]) == 0


@pytest.fixture(scope="module")
def own_pool(world):
    """The pool of ``dph presample`` from the same recipe."""
    dph(world, "presample", "--out", str(world / "own"))
    return load_pool(world / "own" / "pool")


def test_the_pool_says_of_itself_what_dph_presample_would(pool, own_pool):
    ours = own_pool.manifest.source.model_dump()
    theirs = pool.manifest.source.model_dump()
    assert ours.pop("engine") == "torch"
    assert theirs.pop("engine") == "verl dph_torch"
    assert theirs == ours
    assert pool.manifest.rule == own_pool.manifest.rule
    assert pool.manifest.values == own_pool.manifest.values
    assert pool.manifest.counts.prompts == KNOWN + UNSURE
    assert pool.manifest.counts.rehearsal >= KNOWN - 3


def test_every_sample_has_the_verdict_of_the_sql_verifier(pool, world):
    samples = list(graded_rows(pq.read_table(world / "pool" / "samples.parquet")))
    assert pool.manifest.counts.prompts * (SAMPLES + 1) == len(samples)
    outcomes = [sample.verdict.outcome for sample in samples]
    assert outcomes.count(Outcome.CORRECT) > len(samples) / 2
    wrong = [s.verdict.reason for s in samples if s.verdict.outcome is Outcome.WRONG]
    assert wrong
    assert all(wrong)


def test_reference_log_probs_are_those_of_the_training_forward(pool, world):
    scores = score_completions(
        load_model(world / "model", device="cpu"),
        [s.prompt_ids for s in pool.rehearsal],
        [s.completion_ids for s in pool.rehearsal],
        temperature=1.0,
        pad_id=0,
        token_budget=4096,
        dtype="float32",
    )
    for sample, now in zip(pool.rehearsal, scores, strict=True):
        assert sample.ref_logprobs == pytest.approx(now, abs=1e-5)


def test_dph_train_continues_from_the_pool(pool, world):
    assert pool.rehearsal
    settings = ("--set", f"presample.pool={world}/pool", "--set", "train.steps=1")
    dph(world, "train", "--out", str(world / "run"), *settings)
    assert (world / "run" / "checkpoints" / "step_000001").is_dir()


@pytest.fixture(scope="module")
def resumed(session, world, pool):
    """Metrics of a run that was killed after a checkpoint, and of the one that went on."""
    assert pool.rehearsal
    common = ("dph.eta=0.2", f"dph.rehearsal_per_step={STORED}", "trainer.save_freq=1")
    latest = world / "checkpoints" / "latest_checkpointed_iteration.txt"
    deadline = time.monotonic() + 600
    with session.started(
        "train", *common, "trainer.total_training_steps=50", ranks=2, name="killed"
    ) as process:
        while not (latest.exists() and session.metrics("killed")):
            assert process.poll() is None, session.log("killed").read_text()[-6000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
    done = int(latest.read_text())
    after = session.run(
        "train", *common, f"trainer.total_training_steps={done + 1}", ranks=2, name="resumed"
    )
    return session.metrics("killed"), done, after


def test_every_mini_batch_sees_its_share_of_stored_rows_and_the_first_their_log_probs(resumed):
    before, _, after = resumed
    assert before[1]["actor/dph/log_ratio_first"] < 1e-5
    for metrics in (*before.values(), *after.values()):
        # 4 problems in mini-batches of 2 make two mini-batches of a step.
        assert metrics["actor/dph/stored_rows_min"] == STORED / 2
        assert metrics["actor/dph/stored_rows_max"] == STORED / 2
        assert metrics["actor/dph/policy_rows"] == 16


def test_after_a_kill_rehearsal_goes_on_as_if_uninterrupted(resumed, pool):
    before, done, after = resumed
    assert list(after) == [done + 1]
    for step, metrics in (before | after).items():
        expected = rehearsal_of_step(pool.rehearsal, STORED, step, seed=0)
        assert metrics["actor/dph/stored_digest"] == stored_digest(expected)


def test_filtered_groups_the_definition_form_an_own_advantage_and_colocate_async_run_together(
    session, world, own_pool
):
    assert own_pool.rehearsal
    metrics = session.run(
        "train",
        f"dph.pool={world}/own/pool",
        "dph.divergence=jensen_shannon",
        "dph.js_definition=true",
        "dph.eta=0.2",
        f"dph.rehearsal_per_step={STORED}",
        f"+dph.objective.advantage.kind={RELATIVE}",
        "dph.normalisation=rows",
        "trainer.v1.trainer_mode=colocate_async",
        "algorithm.filter_groups.enable=true",
        "algorithm.filter_groups.metric=acc",
        "trainer.total_training_steps=2",
        "trainer.val_before_train=true",
        f"trainer.default_local_dir={world}/asynchronous",
        ranks=1,
        name="asynchronous",
    )
    for step in (1, 2):
        # No group of equal rewards is left, so rewards are neither all 0 nor all 1.
        assert 0 < metrics[step]["critic/rewards/mean"] < 1
        # The pool may hold fewer near-perfect problems than a step asks for.
        stored = len(rehearsal_of_step(own_pool.rehearsal, STORED, step, seed=0))
        assert metrics[step]["actor/dph/stored_rows_min"] == stored // 2
        assert metrics[step]["actor/dph/stored_rows_max"] == -(-stored // 2)
        assert metrics[step]["actor/grad_norm"] > 0
        # (0 - mean) / mean is -1 for every wrong answer, whatever the mean of its group.
        assert metrics[step]["critic/advantages/min"] == pytest.approx(-1, abs=1e-6)
    assert metrics[1]["actor/dph/log_ratio_first"] < 1e-5
    # Both halves are 0 where pi = pi_ref.
    assert abs(metrics[1]["actor/dph/divergence"]) < 0.05


def test_an_advantage_reads_the_log_probs_that_verl_computed(session, world, own_pool):
    assert own_pool.rehearsal
    metrics = session.run(
        "train",
        f"dph.pool={world}/own/pool",
        "dph.method=ucpo",
        "+dph.objective.advantage.tau=1.0",
        "+dph.objective.advantage.scale=none",
        "dph.problems=all",
        "trainer.total_training_steps=2",
        f"trainer.default_local_dir={world}/ucpo",
        ranks=1,
        name="ucpo",
    )
    assert list(metrics) == [1, 2]
    for step in metrics.values():
        assert step["actor/grad_norm"] > 0
        # Without the deviation A is (n - c) / n or - c / n, and what right answers share of it is
        # at most n+ times that: below 3 for groups of four.
        assert -1 < step["critic/advantages/min"] < 0 < step["critic/advantages/max"] < 3
