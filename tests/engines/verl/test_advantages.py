"""Advantages of one's own and of groups that were not graded whole, written over verl's."""

import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

from dph.engines.verl import advantages as module
from dph.engines.verl import trainer
from dph.engines.verl.advantages import ScoredAnswer, group_values
from dph.engines.verl.rows import jagged
from dph.loss.objectives import GroupAdvantage, GroupSamples
from dph.recipe import ObjectiveSettings
from dph.records import Outcome
from dph.runs.objective import make_objective
from engines.verl.fake_queue import FakeQueue
from own_advantage import RELATIVE, SURPRISING

RIGHT, WRONG = Outcome.CORRECT, Outcome.WRONG
CRASHED, BAD = Outcome.CRASHED, Outcome.BAD_GOLD


ROWS = {
    "a_0_0": (1.0, RIGHT, 2),
    "a_1_0": (0.0, WRONG, 1),
    "b_0_0": (1.0, RIGHT, 1),
    "b_1_0": (0.0, CRASHED, 3),
    "b_2_0": (0.0, Outcome.CUT_OFF, 2),
    "c_0_0": (1.0, RIGHT, 2),
    "c_1_0": (0.0, BAD, 1),
}


@pytest.fixture
def queue(monkeypatch):
    fake = FakeQueue()
    monkeypatch.setattr(module, "tq", fake)
    return fake


@pytest.fixture
def batch(queue):
    """The rows above, with advantages of 7 in place of verl's, and a padding row."""
    rows = {**ROWS, "pad_0_0": (9.0, RIGHT, 2)}
    lengths = [tokens for _, _, tokens in rows.values()]
    fields = TensorDict(
        {
            "response_mask": jagged([torch.ones(n, dtype=torch.int64) for n in lengths]),
            "advantages": jagged([torch.full((n,), 7.0) for n in lengths]),
            "old_log_probs": jagged([torch.full((n,), -0.5 * n) for n in lengths]),
            "rm_scores": jagged([torch.tensor([0.0] * (n - 1) + [r]) for r, _, n in rows.values()]),
        },
        batch_size=len(rows),
    )
    queue.kv_batch_put(keys=list(rows), partition_id="train", fields=fields)
    for key, (reward, outcome, _) in rows.items():
        said = {"reward_extra_info": {"outcome": outcome.value, "acc": reward}}
        queue.rows["train", key]["extra_fields"] = said
    tags = [{"is_padding": key.startswith("pad")} for key in rows]
    return KVBatchMeta(partition_id="train", keys=list(rows), tags=tags)


def written(queue):
    return {key: queue.rows["train", key]["advantages"].tolist() for key in (*ROWS, "pad_0_0")}


class Base:
    """verl's trainer, as far as advantages go."""

    def _compute_advantage(self, batch, metrics):
        metrics["theirs"] = 1
        return batch


class Trainer(trainer._Rehearsing, Base):
    mode, parameter_sync_step = "sync", 1

    def __init__(self, objective, **algorithm):
        settings = ObjectiveSettings(**objective)
        values = {"adv_estimator": "grpo", "use_kl_in_reward": False, **algorithm}
        asked = {"data": {"train_batch_size": 3}, "actor_rollout_ref": {"rollout": {"n": 3}}}
        self.config = OmegaConf.create({"algorithm": values, **asked})
        self.dph = type("Group", (), {"objective": settings})
        self._objective = trainer.make_objective(settings)


def test_the_trainer_writes_the_formulas_advantages_on_every_token(queue, batch, caplog):
    metrics = {}
    ours = Trainer({"advantage": {"kind": RELATIVE}})
    assert ours._compute_advantage(batch, metrics) is batch
    assert written(queue) == {
        "a_0_0": [1, 1],  # (1 - 1/2) / (1/2)
        "a_1_0": [-1],
        "b_0_0": [1],
        "b_1_0": [0, 0, 0],
        "b_2_0": [-1, -1],
        "c_0_0": [0, 0],
        "c_1_0": [0],
        "pad_0_0": [7, 7],
    }
    assert metrics == {
        "theirs": 1,
        "dph/ungraded_answers": 2,
        "dph/reward": 3 / 7,  # the row that pads is no answer
        "dph/correct": 3 / 7,
        "dph/zero_variance": 0,
        "dph/unfinished": 1 / 7,
        "dph/missing_answers": 2,  # of 3 problems with 3 answers each
        "dph/outcome_correct": 3 / 7,
        "dph/outcome_wrong": 1 / 7,
        "dph/outcome_cut_off": 1 / 7,
        "dph/outcome_crashed": 1 / 7,
        "dph/outcome_bad_gold": 1 / 7,
    }
    ours._compute_advantage(batch, metrics)
    assert caplog.text.count("2 answers are missing in a step") == 1


def test_an_advantage_may_read_the_log_probs_of_the_answers(queue, batch):
    Trainer({"advantage": {"kind": SURPRISING}})._compute_advantage(batch, {})
    found = written(queue)
    # r - mean, plus a twentieth of the answer's length: its tokens all have -1/2 times that.
    assert found["a_0_0"] == pytest.approx([0.6, 0.6])
    assert found["a_1_0"] == pytest.approx([-0.45])
    assert found["b_0_0"] == pytest.approx([0.55])
    assert found["b_1_0"] == [0, 0, 0]
    assert found["b_2_0"] == pytest.approx([-0.4, -0.4])
    assert found["pad_0_0"] == [7, 7]


def test_log_probs_of_a_session_with_several_rows_are_those_of_all_that_was_drawn():
    masks = [torch.tensor([1, 1, 0]), torch.tensor([1])]
    old = [torch.tensor([-1.0, -2.0, -99.0]), torch.tensor([-4.0])]
    data = TensorDict({"response_mask": jagged(masks), "old_log_probs": jagged(old)}, batch_size=2)
    answers = {"a_0": ScoredAnswer(group="a", reward=1.0)}
    (answer,) = module._with_logprobs(answers, ["a_0_0", "a_0_1"], data).values()
    assert (answer.logprob, answer.length) == (-7.0, 3)


@pytest.mark.parametrize(
    "kind", ["maxrl", "f_grpo", "ucpo", "pass_at_k", "pkpo", "differential_smoothing", "bbg_group"]
)
def test_the_advantages_of_other_papers_are_those_of_the_formula(kind):
    advantage = {"kind": kind, **({"k": 2} if kind in ("pass_at_k", "pkpo") else {})}
    term = make_objective(ObjectiveSettings(advantage=advantage)).advantage
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
    logprobs = -torch.arange(8.0).view(2, 4)
    lengths = torch.arange(8).view(2, 4) + 1
    answers = [
        ScoredAnswer(
            group=str(row),
            reward=float(rewards[row, column]),
            outcome=RIGHT if rewards[row, column] else WRONG,
            logprob=float(logprobs[row, column]),
            length=int(lengths[row, column]),
        )
        for row in range(2)
        for column in range(4)
    ]
    read = GroupSamples(logprobs=logprobs, lengths=lengths)
    expected = term(rewards, read) if hasattr(term, "reads") else term(rewards)
    assert group_values(term, answers) == pytest.approx(expected.flatten().tolist(), abs=1e-6)


def test_verls_own_advantages_stay_where_a_group_was_graded_whole(queue, batch):
    Trainer({})._compute_advantage(batch, {})
    found = written(queue)
    assert found["a_0_0"] == [7, 7]
    assert found["a_1_0"] == [7]
    half = 0.5 / (0.5**0.5 + 1e-6)  # of two rewards: the unbiased deviation is sqrt(1/2)
    assert found["b_0_0"] == pytest.approx([half])
    assert found["b_1_0"] == [0, 0, 0]
    assert found["b_2_0"] == pytest.approx([-half, -half])
    assert found["c_0_0"] == [0, 0]


def test_other_estimators_of_verl_are_left_alone(queue, batch):
    Trainer({}, adv_estimator="rloo")._compute_advantage(batch, {})
    assert {value for row in written(queue).values() for value in row} == {7}


@pytest.mark.parametrize("scaled", [True, False])
def test_our_group_advantage_is_verls(scaled):
    rewards = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    theirs, _ = compute_grpo_outcome_advantage(
        rewards.reshape(-1, 1),
        torch.ones(24, 1),
        [str(i // 4) for i in range(24)],
        norm_adv_by_std_in_grpo=scaled,
    )
    ours = GroupAdvantage("std" if scaled else "none")(rewards)
    assert torch.allclose(theirs.view(6, 4), ours, rtol=1e-5, atol=1e-7)
