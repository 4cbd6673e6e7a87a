"""Drawing through verl's agent loop, with the loop and the queue played by fakes."""

import pytest
import torch
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from dph.engines.verl import presampler
from dph.engines.verl.presampler import ClusterDraw, DPHPresampler
from dph.engines.verl.settings import PresampleSettings
from dph.errors import DataError, PoolError, TrainingError
from dph.records import Outcome, Problem
from dph.runs.presample.pool import load_pool
from dph.tasks.verl import verl_row
from engines.verl.rows import make_model
from tiny_models import build_tokenizer

PROBLEMS = [
    Problem(problem_id=f"p{i}", prompt=f"w{i + 3} w9", answer={"answer": f"w{i + 20}"})
    for i in range(5)
]
SAMPLES = 3


class Queue(dict):
    """Rows by key, as the agent loop would leave them."""

    def kv_batch_put(self, **_):
        pass

    def kv_batch_get(self, *, keys, select_fields, **_):
        return {name: [self[key][name] for key in keys] for name in select_fields}

    def kv_clear(self, *, keys, **_):
        for key in keys:
            del self[key]


class Loop:
    """Answers every problem: p0 always right, the others right in their first sample only."""

    def __init__(self, queue):
        self.queue, self.calls, self.spoil = queue, [], lambda row: row

    def generate_sequences(self, batch):
        self.calls.append(len(batch))
        tokenizer = build_tokenizer()
        for uid, extra, n in zip(
            batch["uid"], batch["extra_info"], batch["__rollout_n__"], strict=True
        ):
            number = int(extra["problem_id"][1:])
            for session in range(n):
                right = number == 0 or session == 0
                ids = [number + 20 if right else 5, 1]
                row = {
                    "prompts": torch.tensor(tokenizer.encode(PROBLEMS[number].prompt)),
                    "responses": torch.tensor(ids),
                    "rollout_log_probs": torch.tensor([-0.5, -0.25]),
                    "extra_fields": {
                        "reward_extra_info": {
                            "outcome": "CORRECT" if right else "WRONG",
                            "acc": float(right),
                            "reason": "" if right else "no",
                        }
                    },
                }
                if self.spoil(row) is not None:
                    self.queue[f"{uid}_{session}_0"] = row


class Buffer:
    def __init__(self, queue):
        self.queue = queue

    def sample(self, **_):
        keys = list(self.queue)
        return KVBatchMeta(partition_id="train", keys=keys, tags=[{}] * len(keys)), {}


class Rows(list):
    """The data set: rows with what verl's own adds."""

    @property
    def dataframe(self):
        return list(self)

    def __getitem__(self, index):
        row = super().__getitem__(index)
        return {**row, "raw_prompt": row["prompt"], "dummy_tensor": torch.tensor([0])}


class Actors:
    """Scores every token of an answer -1."""

    def __init__(self, *_):
        pass

    def __call__(self, _, completions, **__):
        return [(-1.0,) * len(completion) for completion in completions]


@pytest.fixture
def trainer(tmp_path, monkeypatch):
    make_model().save_pretrained(tmp_path / "model")
    build_tokenizer().save_pretrained(tmp_path / "model")
    queue = Queue()
    monkeypatch.setattr(presampler, "tq", queue)
    monkeypatch.setattr(presampler, "EngineForward", Actors)
    made = DPHPresampler.__new__(DPHPresampler)
    made.dph = PresampleSettings(
        pool=tmp_path / "pool", chat=False, samples=2, threshold=2, chunk_size=2
    )
    lengths = {"response_length": 4, "prompt_length": 8}
    parts = {
        "model": {"path": str(tmp_path / "model")},
        "actor": {"strategy": "fsdp2"},
        "rollout": {"name": "vllm", **lengths, "temperature": 1.0, "top_p": 1.0},
    }
    made.config = OmegaConf.create({"actor_rollout_ref": parts})
    made.train_dataset = Rows(verl_row(p, index=i) for i, p in enumerate(PROBLEMS))
    made.agent_loop_manager, made.replay_buffer = Loop(queue), Buffer(queue)
    made.actor_rollout_wg, made.global_steps = None, 1
    return made


def draw(trainer):
    return ClusterDraw(trainer, PROBLEMS)(PROBLEMS, samples=SAMPLES, seed=0)


def test_answers_come_in_the_order_of_problems_and_samples_and_names_are_unique(trainer):
    rollout = draw(trainer)
    found = [[g.completion.problem_id for g in group] for group in rollout.groups]
    assert found == [[p.problem_id] * SAMPLES for p in PROBLEMS]
    assert [g.completion.sample_index for g in rollout.groups[1]] == [0, 1, 2]
    assert not trainer.replay_buffer.queue  # nothing stays there
    assert rollout.prompts[1] == (4, 9)
    first = rollout.groups[1][0]
    assert first.completion.text == "w21"
    assert first.completion.logprobs == (-0.5, -0.25)
    assert first.completion.finished
    assert [g.verdict.outcome for g in rollout.groups[1]] == [Outcome.CORRECT, *[Outcome.WRONG] * 2]
    with pytest.raises(DataError, match="the same problem id"):
        ClusterDraw(trainer, [PROBLEMS[0], PROBLEMS[0]])


def test_the_pool_is_made_in_chunks_and_kept_when_it_is_there(trainer):
    loop = trainer.agent_loop_manager
    trainer.fit(loop)
    assert loop.calls == [2, 2, 1]
    pool = load_pool(trainer.dph.pool)
    assert [s.problem_id for s in pool.rehearsal] == ["p0"]
    assert pool.rehearsal[0].ref_logprobs == (-1.0, -1.0)
    assert [p.problem_id for p in pool.exploration] == ["p1", "p2", "p3", "p4"]
    assert pool.exploration[0] == PROBLEMS[1]
    assert pool.manifest.source.engine == "verl vllm"
    assert pool.manifest.source.dtype == "bfloat16"
    trainer.fit(loop)
    assert loop.calls == [2, 2, 1]


def test_a_killed_one_goes_on_after_its_last_chunk(trainer):
    loop = trainer.agent_loop_manager
    loop.spoil = lambda row: 1 / 0 if len(loop.calls) == 2 else row
    with pytest.raises(ZeroDivisionError):
        trainer.fit(loop)
    trainer.replay_buffer.queue.clear()
    loop.spoil, loop.calls = (lambda row: row), []
    trainer.fit(loop)
    assert loop.calls == [2, 1]
    assert load_pool(trainer.dph.pool).manifest.counts.prompts == 5


def test_problems_whose_gold_cannot_be_graded_are_left_out(trainer):
    def without_gold(row):
        if row["prompts"].tolist()[0] == 5:  # of p2
            info = {"outcome": "BAD_GOLD", "acc": 0.0, "reason": "no such table"}
            row["extra_fields"]["reward_extra_info"] = info
        return row

    trainer.agent_loop_manager.spoil = without_gold
    trainer.fit(trainer.agent_loop_manager)
    pool = load_pool(trainer.dph.pool)
    assert [(p.problem_id, p.outcome) for p in pool.ungradable] == [("p2", Outcome.BAD_GOLD)]
    assert [p.problem_id for p in pool.exploration] == ["p1", "p3", "p4"]
    assert pool.manifest.counts.ungradable == 1


def test_a_pool_of_other_settings_or_graded_in_another_way_is_not_replaced(trainer):
    trainer.dph = trainer.dph.model_copy(update={"verifier": "sql", "sql_rule": "bird"})
    trainer.fit(trainer.agent_loop_manager)
    made = trainer.dph
    for change, message in (({"seed": 1}, "seed was 0"), ({"verifier_timeout": 1.0}, "was 5.0")):
        trainer.dph = made.model_copy(update=change)
        with pytest.raises(PoolError, match=message):
            trainer.fit(trainer.agent_loop_manager)


def by_another_manager(row):
    row["extra_fields"].update(reward_extra_info={"acc": 1.0})
    return row


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda row: None if int(row["responses"][0]) == 5 else row,
            "'p1': 2 of 3 answers could not be drawn",
        ),
        (lambda row: row["prompts"].add_(1), "default_agent_loop=dph_single_turn"),
        (by_another_manager, "needs DPHRewardManager"),
    ],
    ids=["missing answers", "another agent loop", "another reward manager"],
)
def test_what_did_not_come_as_asked_is_refused(trainer, spoil, message):
    trainer.agent_loop_manager.spoil = spoil
    with pytest.raises(TrainingError, match=message):
        draw(trainer)
