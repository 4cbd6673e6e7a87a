"""The actors that mix stored answers in, with verl's workers and queue played by fakes."""

from itertools import combinations

import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from dph.engines.verl import mixing
from dph.engines.verl import rows as engine_rows
from dph.engines.verl.mixing import MixingActors, open_stored, stored_digest
from dph.engines.verl.rows import answer_rows
from dph.engines.verl.settings import TrainSettings
from dph.errors import DataError, PoolError
from dph.runs.presample.pool import load_pool
from dph.runs.train.rows import rehearsal_of_step
from engines.verl import rows
from engines.verl.fake_queue import FakeQueue
from engines.verl.small_pool import write_small_pool

POLICY = 8
RANKS = 2


class FakeActors:
    """Two ranks; remembers what it was asked to train on."""

    _dispatch_info = {"actor": [0, 1]}  # noqa: RUF012
    colour = "blue"

    def __init__(self, queue):
        self.queue, self.seen = queue, []

    def _query_dispatch_info(self, name):
        return self._dispatch_info[name]

    def update_actor(self, batch):
        data = [self.queue.rows[batch.partition_id, key] for key in batch.keys]
        assert all(set(batch.fields) <= set(row) for row in data)
        self.seen.append((batch, data))
        minibatches = len(batch) // batch.extra_info["mini_batch_size"]
        output = TensorDict({}, batch_size=[])
        metrics = {"dph/stored_rows": [2.0, 3.0], "dph/log_ratio_max": [0.5, 0.9]}
        tu.assign_non_tensor(output, metrics={**metrics, "loss": [0.0] * minibatches})
        return output

    def compute_log_prob(self, batch):
        assert len(batch) % (RANKS * 4) == 0
        for key in batch.keys:
            row = self.queue.rows[batch.partition_id, key]
            # As the engine does: position t is about token t + 1.
            row["log_probs"] = -row["input_ids"].roll(-1).float()


@pytest.fixture
def queue(monkeypatch):
    fake = FakeQueue()
    monkeypatch.setattr(mixing, "tq", fake)
    monkeypatch.setattr(engine_rows, "tq", fake)
    return fake


def config(**actor):
    actor = {"use_dynamic_bsz": False, "ppo_micro_batch_size_per_gpu": 2, **actor}
    rollout = {
        "response_length": 8,
        "temperature": 0.9,
        "log_prob_use_dynamic_bsz": False,
        "log_prob_micro_batch_size_per_gpu": 4,
    }
    return OmegaConf.create({"actor_rollout_ref": {"actor": actor, "rollout": rollout}})


@pytest.fixture
def batch(queue):
    policy = rows.policy_rows(POLICY)
    fields = answer_rows([r.prompt_ids for r in policy], [r.completion_ids for r in policy])
    for name in ("old_log_probs", "advantages"):
        fields[name] = fields["response_mask"]
    keys = [f"u{i}_0_0" for i in range(POLICY)]
    queue.kv_batch_put(keys=keys, partition_id="train", fields=fields)
    return KVBatchMeta(
        partition_id="train",
        keys=keys,
        tags=[{"seq_len": 9}] * POLICY,
        fields=list(fields.keys()),
        extra_info={"mini_batch_size": 4, "global_batch_size": 4, "epochs": 1},
    )


def make(queue, small_pool, *, step=1, chosen=None, **changes):
    _, stored = open_stored(small_pool)
    settings = TrainSettings(pool=small_pool, rehearsal_per_step=6, **changes)
    actors = FakeActors(queue)
    return actors, MixingActors(
        actors, chosen or config(), settings, {"rehearsal": stored}, lambda: step
    )


def test_each_update_takes_the_answers_of_its_step(queue, small_pool, batch):
    _, stored = open_stored(small_pool)
    for step in (1, 2):
        actors, mixed = make(queue, small_pool, step=step)
        output = mixed.update_actor(batch)
        expected = rehearsal_of_step(stored, 6, step, seed=0)
        assert output["metrics"]["dph/stored_digest"] == [stored_digest(expected)]
        (_, data) = actors.seen[0]
        found = [tuple(r["input_ids"].tolist()) for r in data if r["dph_stored"] == 1]
        assert set(found) == {(*s.prompt_ids, *s.completion_ids) for s in expected}


def test_results_of_tools_in_stored_trajectories_are_masked(queue, tmp_path, batch):
    write_small_pool(tmp_path / "pool", acts=True)
    _, stored = open_stored(tmp_path / "pool")
    by_ids = {(*s.prompt_ids, *s.completion_ids): s for s in stored}
    actors, mixed = make(queue, tmp_path / "pool", chosen=config(use_dynamic_bsz=True))
    mixed.update_actor(batch)
    rows = [row for row in actors.seen[0][1] if row["dph_weight"] > 0 and row["dph_stored"] == 1]
    assert len(rows) == 6
    tokens = [int(row["response_mask"].sum()) for row in rows]
    for row, count in zip(rows, tokens, strict=True):
        sample = by_ids[tuple(row["input_ids"].tolist())]
        mine = row["response_mask"].bool()
        assert tuple(mine.tolist()) == sample.written
        assert row["old_log_probs"][mine].tolist() == pytest.approx(sample.ref_logprobs)
        assert row["old_log_probs"][~mine].abs().sum() == 0
        # A token mean: each of the two mini-batches divides by what policies wrote in it.
        assert any(
            float(row["dph_weight"]) == pytest.approx(1 / sum(three))
            for three in combinations(tokens, 3)
            if count in three
        )


def test_fixed_micro_batches_are_filled_with_rows_of_weight_0(queue, small_pool, batch):
    actors, mixed = make(queue, small_pool)
    mixed.update_actor(batch)
    ((sent, data),) = actors.seen
    # 2 ranks x 2 mini-batches x micro-batches of 2: 6 stored answers need 8 rows.
    weights = [float(r["dph_weight"]) for r in data if r["dph_stored"] == 1]
    assert len(weights) == 8
    assert weights.count(0.0) == 2
    assert sent.extra_info["mini_batch_size"] == 8
    assert sent.extra_info["global_batch_size"] == 4
    assert sent.extra_info["dataloader_kwargs"] == {"shuffle": False}


def test_verls_padding_rows_weigh_nothing(queue, small_pool, batch):
    batch.tags[0] = {"seq_len": 9, "is_padding": True}
    actors, mixed = make(queue, small_pool, normalisation="rows")
    assert mixed.update_actor(batch)["metrics"]["dph/policy_rows"] == [POLICY - 1]
    ((_, data),) = actors.seen
    assert float(data[0]["dph_weight"]) == 0
    # The first mini-batch holds 3 policy rows that count and 3 stored ones, the other 4 and 3.
    assert {round(float(r["dph_policy_scale"]), 6) for r in data} == {0.5, round(4 / 7, 6)}


def test_stored_rows_leave_the_queue_also_when_an_update_fails(queue, small_pool, batch):
    actors, mixed = make(queue, small_pool)
    for _ in range(3):
        mixed.update_actor(batch)
        assert len(queue.rows) == POLICY
    assert queue.most == POLICY + 8
    actors.update_actor = lambda _: 1 / 0
    with pytest.raises(ZeroDivisionError):
        mixed.update_actor(batch)
    assert len(queue.rows) == POLICY


def test_the_distance_before_the_first_mini_batch_is_told_apart(queue, small_pool, batch):
    _, mixed = make(queue, small_pool)
    assert mixed.colour == "blue"  # everything but the update passes through
    metrics = mixed.update_actor(batch)["metrics"]
    assert metrics["dph/log_ratio_first"] == [0.5]
    assert metrics["dph/stored_rows_min"] == [2.0, 3.0]
    assert metrics["dph/policy_rows"] == [POLICY]


def test_fields_that_policy_rows_have_beside_are_filled_or_refused(queue, small_pool, batch):
    more = ["ref_log_prob", "rollout_is_weights"]
    for key in batch.keys:
        row = queue.rows["train", key]
        row.update(dict.fromkeys(more, row["old_log_probs"].float()), multi_modal_inputs={})
    batch.fields += [*more, "multi_modal_inputs"]
    actors, mixed = make(queue, small_pool)
    mixed.update_actor(batch)
    row = next(r for r in actors.seen[0][1] if r["dph_stored"] == 1)
    assert torch.equal(row["ref_log_prob"], row["old_log_probs"])
    assert set(row["rollout_is_weights"].tolist()) == {1.0}
    queue.rows["train", batch.keys[3]]["multi_modal_inputs"] = {"pixel_values": 1}
    with pytest.raises(DataError, match="a prompt has images"):
        mixed.update_actor(batch)


def test_the_engines_log_probs_belong_to_the_answers_tokens_and_many_are_scored_in_parts(
    queue, monkeypatch
):
    prompts, completions = [(5, 6), (7,)], [(8, 9, 10), (11,)]
    forward = engine_rows.EngineForward(FakeActors(queue), config())
    scores = forward(prompts, completions, temperature=0.9)
    assert scores == [(-8.0, -9.0, -10.0), (-11.0,)]
    assert not queue.rows
    with pytest.raises(ValueError, match=r"temperature=0\.9, got 1\.0"):
        forward(prompts, completions, temperature=1.0)
    monkeypatch.setattr(engine_rows, "_ROWS", 3)
    scores = forward([(5,)] * 7, [(i,) for i in range(7)], temperature=0.9)
    assert scores == [(-float(i),) for i in range(7)]
    assert queue.most == RANKS * 4


def test_stored_answers_are_the_samples_of_the_pool_and_a_changed_file_is_refused(small_pool):
    manifest, stored = open_stored(small_pool)
    pool = load_pool(small_pool)
    assert manifest == pool.manifest
    assert list(stored) == list(pool.rehearsal)
    assert stored[2:5] == list(pool.rehearsal[2:5])
    assert stored[-1] == pool.rehearsal[-1]
    for step in (1, 2, 40):  # a step draws the same ones as ``dph train``
        ours = rehearsal_of_step(stored, 5, step, seed=3)
        assert ours == rehearsal_of_step(pool.rehearsal, 5, step, seed=3)
    with pytest.raises(IndexError, match="there are 11"):
        stored[11]
    (small_pool / "rehearsal.parquet").write_bytes(b"else")
    with pytest.raises(PoolError, match="SHA-256 differs"):
        open_stored(small_pool)
