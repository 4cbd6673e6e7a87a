"""The group dph has the types and ranges of a recipe."""

import pytest
from omegaconf import OmegaConf

from dph.engines.verl import settings
from dph.engines.verl.presample import presample
from dph.engines.verl.train import train
from dph.errors import PoolError, SettingsError


def config(**group):
    return OmegaConf.create(
        {
            "dph": {"pool": "pool", **group},
            "trainer": {"use_v1": True, "v1": {"trainer_mode": "sync"}},
        }
    )


def test_the_configuration_of_training_names_every_setting(composed):
    group = OmegaConf.to_container(composed("dph_train").dph)
    assert set(group) == set(settings.TrainSettings.model_fields)
    defaults = settings.TrainSettings(pool="pool").model_dump(mode="json", exclude={"objective"})
    assert group.pop("objective") == {}
    assert {**group, "pool": "pool"} == defaults


def test_with_no_word_on_it_the_objective_is_the_forward_kl(composed):
    composed_ones = composed("dph_train", "dph.pool=pool")
    (anchor,) = settings.train_settings(composed_ones).objective.anchors.values()
    assert (anchor.divergence, anchor.weight) == ("forward_kl", 0.01)


@pytest.mark.parametrize(
    "overrides",
    [
        ("dph.eta=0.3", "dph.divergence=alpha", "dph.alpha=0.2"),
        (
            "+dph.objective.anchors.rehearsal.weight=0.3",
            "+dph.objective.anchors.rehearsal.divergence=alpha",
            "+dph.objective.anchors.rehearsal.alpha=0.2",
        ),
        ("+dph.objective={eta:0.3,divergence:alpha,alpha:0.2}",),
        ("dph.method=alpha", "dph.eta=0.3", "dph.alpha=0.2"),
    ],
)
def test_the_objective_is_written_as_in_a_recipe_or_in_short(composed, overrides):
    chosen = composed("dph_train", "dph.pool=pool", *overrides)
    anchor = settings.train_settings(chosen).objective.anchors["rehearsal"]
    assert (anchor.divergence, anchor.weight) == ("alpha", 0.3)
    assert anchor.parameters == {"alpha": 0.2}


def test_a_recipe_is_named_by_its_path(composed, tmp_path):
    path = tmp_path / "recipe.toml"
    head = 'method = "dph_js"\nmodel.path = "m"\ndata.train = "t"\n'
    path.write_text(head + "[objective.advantage]\nscale = 'none'\n")
    chosen = composed("dph_train", "dph.pool=pool", f"dph.objective={path}")
    objective = settings.train_settings(chosen).objective
    assert objective.anchors["rehearsal"].divergence == "jensen_shannon"
    assert objective.advantage.parameters == {"scale": "none"}
    assert objective.surrogate.parameters == {"clip_low": 0.2, "clip_high": 0.28}


def test_the_weight_of_the_rehearsal_alone_is_that_of_the_forward_kl(composed):
    one = composed("dph_train", "dph.pool=pool", "+dph.objective.anchors.rehearsal.weight=0.3")
    (anchor,) = settings.train_settings(one).objective.anchors.values()
    assert (anchor.divergence, anchor.weight) == ("forward_kl", 0.3)


def test_the_configuration_of_pre_sampling_names_every_setting(composed):
    group = OmegaConf.to_container(composed("dph_presample").dph)
    assert set(group) == set(settings.PresampleSettings.model_fields)
    defaults = settings.PresampleSettings(pool="pool").model_dump(mode="json")
    assert {**group, "pool": "pool"} == defaults


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eta": -1.0}, "eta"),
        ({"divergence": "none"}, "needs a divergence"),
        ({"divergence": "jensen"}, "there is no 'jensen'"),
        ({"objective": {"eta": 0.1}, "eta": 0.2}, "is 0.1, and also 0.2: set it only once"),
        ({"objective": {"etha": 0.1}}, "etha"),
        ({"method": "dhp_f"}, "method must be one of grpo"),
        ({"overlong_buffer": 1.5}, "overlong_buffer"),
        ({"js_definition": True}, "needs divergence='jensen_shannon'"),
        ({"rehearsal_per_step": 0}, "rehearsal_per_step"),
        ({"normalisation": "all"}, "normalisation"),
        ({"problems": "some"}, "problems"),
        ({"verifier_workers": 0}, "verifier_workers"),
        ({"sql_rule": "lenient"}, "sql_rule"),
        ({"verifier": "math_qwen"}, "antlr4"),
        ({"chat": False, "system_prompt": "Think."}, "needs chat=true"),
        ({"etha": 0.1}, "etha"),
        ({"pool": "???"}, "dph.pool is missing"),
    ],
)
def test_a_wrong_setting_of_training_is_named(changes, message):
    with pytest.raises(SettingsError, match=message):
        settings.train_settings(config(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 4}, "threshold"),
        ({"wrong_final": "keep"}, "wrong_final"),
        ({"chunk_size": 0}, "chunk_size"),
    ],
)
def test_a_wrong_setting_of_pre_sampling_is_named(changes, message):
    with pytest.raises(SettingsError, match=message):
        settings.presample_settings(config(**changes))


def test_workers_of_either_command_find_what_they_share():
    shared = settings.shared_settings(config(eta=0.1, samples=9, verifier="number"))
    assert shared.make_verifier().name == "number"


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ({"strategy": "fsdp2", "fsdp_config": {}}, "bfloat16"),
        (
            {"strategy": "fsdp", "fsdp_config": {"mixed_precision": {"param_dtype": "fp32"}}},
            "float32",
        ),
        ({"strategy": "megatron", "megatron": {"dtype": "bfloat16"}}, "bfloat16"),
    ],
)
def test_the_precision_is_named_as_in_a_manifest(engine, expected):
    chosen = OmegaConf.create({"actor_rollout_ref": {"actor": engine}})
    assert settings.precision(chosen) == expected


def test_half_precision_is_refused():
    engine = {"strategy": "fsdp2", "fsdp_config": {"mixed_precision": {"param_dtype": "fp16"}}}
    with pytest.raises(SettingsError, match="param_dtype must be one of"):
        settings.precision(OmegaConf.create({"actor_rollout_ref": {"actor": engine}}))


def test_training_without_a_pool_ends_before_ray_starts(tmp_path):
    with pytest.raises(PoolError, match="is not a pool"):
        train(config(pool=str(tmp_path / "none")))


def test_a_mode_without_rehearsal_is_refused(small_pool):
    chosen = config(pool=str(small_pool))
    chosen.trainer.v1.trainer_mode = "separate_async"
    with pytest.raises(SettingsError, match="must be sync or colocate_async"):
        train(chosen)


def test_the_old_trainers_are_refused(small_pool):
    chosen = config(pool=str(small_pool))
    chosen.trainer.use_v1 = False
    with pytest.raises(SettingsError, match="V1"):
        train(chosen)


def test_a_pool_is_not_written_over_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(PoolError, match="holds files but no pool"):
        presample(config(pool=str(tmp_path)))
