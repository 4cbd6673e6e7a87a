"""A recipe as overrides of verl, without verl; tests/engines/verl holds them to its keys."""

from pathlib import Path

import pytest

from dph.engines.stages.verl_command import (
    VerlRun,
    commands,
    environment,
    hydra_value,
    override,
    presample_overrides,
    require_cluster,
    train_overrides,
)
from dph.engines.verl_rows import IN_COMMANDS
from dph.errors import SettingsError
from engines.stages.recipes import make_recipe


def run_of(method="dph_f", **changes):
    return VerlRun(
        recipe=make_recipe("verl", method, **changes),
        directory=Path("/run"),
        model=Path("/models/base"),
        longest_prompt=30,
    )


def values(words):
    return dict(word.lstrip("+").split("=", 1) for word in words)


def test_a_step_is_a_rollout_of_whole_problems():
    found = values(train_overrides(run_of()))
    actor = "actor_rollout_ref.actor.ppo_"
    sizes = {"data.train_batch_size": 6, f"{actor}mini_batch_size": 3, f"{actor}epochs": 3}
    sizes |= {"actor_rollout_ref.rollout.n": 4, "trainer.total_training_steps": 10}
    sizes |= {"dph.rehearsal_per_step": 8, "dph.objective": "/run/recipe.toml"}
    assert {key: found[key] for key in sizes} == {key: str(size) for key, size in sizes.items()}
    found = values(train_overrides(run_of(**{"train.warmup_steps": 7})))
    assert found["actor_rollout_ref.actor.optim.lr_warmup_steps"] == "2"  # of 2 * 3
    with pytest.raises(SettingsError, match=r"is not divisible by train\.minibatches = 4"):
        train_overrides(run_of(**{"train.minibatches": 4}))


def test_a_micro_batch_holds_the_longest_row_at_least():
    key = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    assert values(train_overrides(run_of()))[key] == "16384"
    small = run_of(**{"train.microbatch_tokens": 10})
    assert values(train_overrides(small))[key] == "50"  # 30 of the prompt, 20 of the answer


def test_the_pool_is_drawn_by_its_own_seed():
    seeds = {"seed": 3, "presample.seed": 7}
    assert values(presample_overrides(run_of(**seeds)))["dph.seed"] == "7"
    assert values(train_overrides(run_of(**seeds)))["dph.seed"] == "3"


def test_ones_own_overrides_come_last_and_win():
    own = ["actor_rollout_ref.rollout.n=2", "+ray_kwargs.ray_init.num_cpus=4"]
    words = train_overrides(run_of(**{"verl.overrides": own}))
    assert words[-2:] == own
    with pytest.raises(SettingsError, match=r"verl\.overrides"):
        run_of(**{"verl.overrides": ["; rm x"]})


def test_several_machines_need_a_cluster():
    with pytest.raises(SettingsError, match=r"verl\.nodes = 2 needs a Ray cluster"):
        require_cluster(make_recipe("verl", **{"verl.nodes": 2}))
    joined = run_of(**{"verl.nodes": 2, "verl.address": "head:6379"})
    require_cluster(joined.recipe)
    assert environment(joined, log=Path("/log"))["RAY_ADDRESS"] == "head:6379"
    assert "RAY_ADDRESS" not in environment(run_of(), log=Path("/log"))


@pytest.mark.parametrize(
    ("value", "word"),
    [
        *((None, "null"), (True, "true"), (1e-08, "1e-08"), ((0.9, "x"), "[0.9, x]")),
        *(("runs/a-b_1.5", "runs/a-b_1.5"), (Path("/a b"), "'/a b'"), ("", "''")),
        *(("true", "'true'"), ("12", "'12'"), ("a=b", "'a=b'"), ("it's", r"'it\'s'")),
        *((r"a\'b", r"'a\\\'b'"), ("x y\\", r"'x y\\'")),
    ],
)
def test_a_value_is_written_so_that_it_is_read_as_it_was(value, word):
    assert hydra_value(value) == word


def test_a_table_may_have_keys_that_were_not_there():
    assert override("a.b", {"eps": 1e-08}) == "++a.b={eps: 1e-08}"
    assert override("a.b", 3) == "a.b=3"


def section(name, **settings):
    return {f"{name}.{key}": value for key, value in settings.items()}


CHANGED = {
    "name": "other",
    "seed": 5,
    "environment.path": "my_module:Environment",
    **section("verl", overrides=["trainer.test_freq=5"], nodes=2, gpus=3, address="head:6379"),
    **section("verl", rollout="sglang"),
    **section("model", device="cpu", dtype="bfloat16", attention="eager", kernels="liger"),
    **section("model", gradient_checkpointing=True),
    **section("data", verifier_workers=3, verifier_timeout=9.0, databases="databases"),
    **section("data", sql_rule="spider", modules=["modules"], chat=True, system_prompt="Answer."),
    **section("sampling", temperature=0.5, top_p=0.5, max_tokens=30),
    **section("vllm", memory=0.2, gpus=2, context=4096, eager=True),
    **section("presample", samples=16, threshold=5, wrong_final="explore", seed=9),
    **section("presample", pool="elsewhere"),
    **section("train", problems="all", steps=20, samples_per_problem=6, rehearsal_per_step=4),
    **section("train", minibatches=3, epochs=1, learning_rate=0.5, warmup_steps=7, eps=0.5),
    **section("train", betas=[0.5, 0.5], weight_decay=0.5, max_grad_norm=0.5),
    **section("train", microbatch_tokens=99, checkpoint_every=2, keep_checkpoints=7),
    "track.project": "other",
}
MODEL = {"model.path", "model.revision"}
"""Settings that choose the directory of the initial policy, which a run resolves."""
WITH = {"data.system_prompt": {"data.chat": True}, "environment.path": {"data.chat": True}}


def test_every_setting_of_a_command_changes_it_and_no_other_is_said_to():
    assert set(IN_COMMANDS) == {*CHANGED, *MODEL}
    for key, value in CHANGED.items():
        more = WITH.get(key, {})
        before, after = run_of(**more), run_of(**more, **{key: value})
        assert commands(before, pool=True) != commands(after, pool=True), key
