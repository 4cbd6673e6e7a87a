"""What the trainers check and prepare before verl takes over."""

from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from dph._base.files.rows import read_rows
from dph.engines.verl import trainer as module
from dph.engines.verl.mixing import MixingActors, open_stored, require_fitting_pool
from dph.engines.verl.settings import train_settings
from dph.errors import PoolError, SettingsError
from dph.records import Problem
from dph.runs.presample.pool import load_pool
from dph.tasks.problems import save_problems
from dph.tasks.verl import problems_to_verl
from engines.verl.rows import TEMPERATURE, make_model
from engines.verl.small_pool import write_small_pool
from tiny_models import build_tokenizer

FLOAT32 = {"mixed_precision": {"param_dtype": "fp32"}}


@pytest.fixture
def config(tmp_path):
    """A configuration of the tiny model with a pool of it."""
    make_model().save_pretrained(tmp_path / "model")
    build_tokenizer().save_pretrained(tmp_path / "model")
    write_small_pool(tmp_path / "pool")
    actor = {"strategy": "fsdp2", "fsdp_config": FLOAT32, "shuffle": False}
    return OmegaConf.create(
        {
            "dph": {"pool": str(tmp_path / "pool"), "chat": False},
            "trainer": {
                "default_local_dir": str(tmp_path / "run"),
                "v1": {"trainer_mode": "dph_sync"},
            },
            "data": {"train_files": "theirs.parquet"},
            "actor_rollout_ref": {
                "model": {"path": str(tmp_path / "model")},
                "actor": {**actor, "use_kl_loss": False, "kl_loss_coef": 0.001},
                "rollout": {"temperature": TEMPERATURE, "prompt_length": 8, "response_length": 8},
            },
        }
    )


class Base:
    """verl's trainer, as far as ours meets it."""

    parameter_sync_step, local_trigger_step, global_steps = 1, 0, 0
    actor_rollout_wg = None
    started = False

    def __init__(self, config):
        self.config = config

    def on_init_end(self):
        self.started = True


class Trainer(module._Rehearsing, Base):
    mode = "sync"


class Actors:
    loss = None

    def set_loss_fn(self, loss):
        self.loss = loss


def begun(config, monkeypatch, *, off=0.0, steps=0):
    """A trainer after ``on_init_end``, whose engine is ``off`` nats away from the stored ones."""
    trainer = Trainer(config)
    trainer.actor_rollout_wg, trainer.global_steps = Actors(), steps
    stored = list(open_stored(train_settings(config).pool)[1])

    def engine(_actors, _config):
        # Tokens that a tool wrote are nobody's: their log-probs may be anything.
        rows = [(iter(s.ref_logprobs), s.written or [True] * len(s.completion_ids)) for s in stored]
        found = [tuple(next(own) + off if w else -9.0 for w in mine) for own, mine in rows]
        return lambda *_, **__: found

    monkeypatch.setattr(module, "EngineForward", engine)
    monkeypatch.setattr(module, "omega_conf_to_dataclass", lambda actor: actor)
    trainer.on_init_end()
    return trainer


def test_verl_sees_its_own_mode_and_reads_the_problems_that_pre_sampling_left_open(config):
    ours = Trainer(config).config
    assert ours.trainer.v1.trainer_mode == "sync"
    (path,) = ours.data.train_files
    rows = [row for _, row in read_rows(module.Path(path))]
    assert [row["extra_info"]["problem_id"] for row in rows] == ["p0", "p1"]
    assert rows[0]["reward_model"]["ground_truth"] == "w0"


def test_problems_to_explore_are_asked_as_in_the_files_of_the_command(config, tmp_path):
    pool = {p.problem_id: p for p in load_pool(tmp_path / "pool").exploration}
    asked = [replace(p, prompt=f"1 + 1 = 2\n{p.prompt}") for p in (pool["p1"], pool["p0"])]
    save_problems(
        tmp_path / "asked.jsonl",
        [*asked, Problem(problem_id="p9", prompt="no", answer={"answer": 1})],
    )
    problems_to_verl(tmp_path / "asked.jsonl", tmp_path / "asked.parquet")
    config.data.train_files = str(tmp_path / "asked.parquet")
    config.actor_rollout_ref.rollout.prompt_length = 64
    (path,) = Trainer(config).config.data.train_files
    rows = [row for _, row in read_rows(module.Path(path))]
    assert [row["prompt"][0]["content"] for row in rows] == [asked[1].prompt, asked[0].prompt]
    assert rows[0]["extra_info"]["problem_id"] == "p0"


def test_all_problems_are_those_that_the_user_names_and_mini_batches_are_not_shuffled(config):
    config.dph.problems = "all"
    assert Trainer(config).config.data.train_files == "theirs.parquet"
    config.actor_rollout_ref.actor.shuffle = True
    with pytest.raises(SettingsError, match="shuffle=true"):
        Trainer(config)


def test_the_actors_mix_and_know_the_loss(config, monkeypatch):
    config.dph.eta = 0.3
    trainer = begun(config, monkeypatch)
    assert isinstance(trainer.actor_rollout_wg, MixingActors)
    (anchor,) = trainer.actor_rollout_wg._actors.loss.objective.anchors.values()
    assert (anchor.weight, anchor.divergence.name) == (0.3, "forward_kl")
    assert trainer.started


def test_with_eta_0_verl_is_left_alone(config, monkeypatch):
    config.dph.eta = 0.0
    trainer = begun(config, monkeypatch, off=1.0)
    assert isinstance(trainer.actor_rollout_wg, Actors)
    assert trainer.actor_rollout_wg.loss is None
    assert trainer.started


def test_log_probs_of_another_model_are_refused_at_step_0_only_by_the_policys_tokens(
    config, monkeypatch
):
    with pytest.raises(PoolError, match="not this policy's"):
        begun(config, monkeypatch, off=0.1)
    assert begun(config, monkeypatch, off=0.1, steps=3).started
    write_small_pool(Path(config.dph.pool).with_name("acted"), acts=True)
    config.dph.pool = str(Path(config.dph.pool).with_name("acted"))
    assert begun(config, monkeypatch).started
    with pytest.raises(PoolError, match="not this policy's"):
        begun(config, monkeypatch, off=0.1)


def test_an_update_is_numbered_as_a_step_of_dph_train(config, monkeypatch):
    trainer = begun(config, monkeypatch)
    trainer.global_steps = 7
    assert trainer._update() == 7
    trainer.parameter_sync_step, trainer.local_trigger_step = 4, 2
    assert trainer._update() == 27


@pytest.mark.parametrize(("asked", "expected"), [(False, 0.0), (True, 0.001)])
def test_the_definition_form_adds_a_reference_and_no_penalty_of_its_own(config, asked, expected):
    config.dph.update(divergence="jensen_shannon", js_definition=True)
    config.actor_rollout_ref.actor.use_kl_loss = asked
    actor = Trainer(config).config.actor_rollout_ref.actor
    assert actor.use_kl_loss
    assert actor.kl_loss_coef == expected


def require_fitting(config, tokenizer=None, **counts):
    settings = train_settings(config)
    manifest, _ = open_stored(settings.pool)
    changed = manifest.model_copy(update={"counts": manifest.counts.model_copy(update=counts)})
    require_fitting_pool(settings, config, changed, tokenizer or build_tokenizer())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("actor_rollout_ref.rollout.temperature", 0.5, "temperature was 0.9"),
        ("actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype", "bf16", "dtype was"),
        ("dph.chat", True, "chat was False"),
    ],
)
def test_a_pool_of_other_settings_is_refused(config, key, value, message):
    OmegaConf.update(config, key, value)
    with pytest.raises(PoolError, match=message):
        require_fitting(config)


def test_a_pool_of_another_tokenizer_or_without_problems_to_explore_is_refused(config):
    other = build_tokenizer()
    other.add_tokens(["new"])
    with pytest.raises(PoolError, match="tokenizer fingerprint was"):
        require_fitting(config, other)
    with pytest.raises(PoolError, match="no problem to explore"):
        require_fitting(config, exploration=0)
