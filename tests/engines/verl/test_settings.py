"""The group dph has the types and ranges of a recipe."""

import pytest
from omegaconf import OmegaConf

from dph.engines.verl import settings
from dph.engines.verl.presample import presample
from dph.engines.verl.train import train
from dph.errors import PoolError, SettingsError

FP32 = {"param_dtype": "fp32"}


def config(**group):
    return OmegaConf.create(
        {
            "dph": {"pool": "pool", **group},
            "trainer": {"use_v1": True, "v1": {"trainer_mode": "sync"}},
        }
    )


@pytest.mark.parametrize(
    ("command", "made"),
    [("dph_train", settings.TrainSettings), ("dph_presample", settings.PresampleSettings)],
)
def test_the_configuration_of_a_command_names_every_setting(composed, command, made):
    group = OmegaConf.to_container(composed(command).dph)
    assert set(group) == set(made.model_fields)
    defaults = made(pool="pool").model_dump(mode="json", exclude={"objective"})
    assert group.pop("objective", {}) == {}
    assert {**group, "pool": "pool"} == defaults


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


@pytest.mark.parametrize(
    ("said", "weight"), [([], 0.01), (["+dph.objective.anchors.rehearsal.weight=0.3"], 0.3)]
)
def test_with_no_other_word_on_it_the_objective_is_the_forward_kl(composed, said, weight):
    one = composed("dph_train", "dph.pool=pool", *said)
    (anchor,) = settings.train_settings(one).objective.anchors.values()
    assert (anchor.divergence, anchor.weight) == ("forward_kl", weight)


TRAIN, PRESAMPLE = settings.train_settings, settings.presample_settings


@pytest.mark.parametrize(
    ("read", "changes", "message"),
    [
        (PRESAMPLE, {"samples": 4}, "threshold"),
        (PRESAMPLE, {"wrong_final": "keep"}, "wrong_final"),
        (PRESAMPLE, {"chunk_size": 0}, "chunk_size"),
        (TRAIN, {"divergence": "jensen"}, "there is no 'jensen'"),
        (TRAIN, {"objective": {"eta": 0.1}, "eta": 0.2}, "is 0.1, and also 0.2: set it only once"),
        (TRAIN, {"overlong_buffer": 1.5}, "overlong_buffer"),
        (TRAIN, {"js_definition": True}, "needs divergence='jensen_shannon'"),
        (TRAIN, {"rehearsal_per_step": 0}, "rehearsal_per_step"),
        (TRAIN, {"normalisation": "all"}, "normalisation"),
        (TRAIN, {"problems": "some"}, "problems"),
        (TRAIN, {"verifier_workers": 0}, "verifier_workers"),
        (TRAIN, {"sql_rule": "lenient"}, "sql_rule"),
        (TRAIN, {"verifier": "math_qwen"}, "antlr4"),
        (TRAIN, {"chat": False, "system_prompt": "Think."}, "needs chat=true"),
        (TRAIN, {"etha": 0.1}, "etha"),
        (TRAIN, {"pool": "???"}, "dph.pool is missing"),
    ],
)
def test_a_wrong_setting_of_training_or_pre_sampling_is_named(read, changes, message):
    with pytest.raises(SettingsError, match=message):
        read(config(**changes))


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ({"strategy": "fsdp2", "fsdp_config": {}}, "bfloat16"),
        ({"strategy": "fsdp", "fsdp_config": {"mixed_precision": FP32}}, "float32"),
    ],
)
def test_the_precision_is_named_as_in_a_manifest_and_half_is_refused(engine, expected):
    chosen = OmegaConf.create({"actor_rollout_ref": {"actor": engine}})
    assert settings.precision(chosen) == expected
    half = {"strategy": "fsdp2", "fsdp_config": {"mixed_precision": {"param_dtype": "fp16"}}}
    with pytest.raises(SettingsError, match="param_dtype must be one of"):
        settings.precision(OmegaConf.create({"actor_rollout_ref": {"actor": half}}))


def test_training_without_a_pool_and_a_pool_over_files_are_refused(tmp_path):
    with pytest.raises(PoolError, match="is not a pool"):
        train(config(pool=str(tmp_path / "none")))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(PoolError, match="holds files but no pool"):
        presample(config(pool=str(tmp_path)))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("trainer.v1.trainer_mode", "separate_async", "must be sync or colocate_async"),
        ("trainer.use_v1", False, "V1"),
    ],
)
def test_a_mode_without_rehearsal_and_the_old_trainers_are_refused(small_pool, key, value, message):
    chosen = config(pool=str(small_pool))
    OmegaConf.update(chosen, key, value)
    with pytest.raises(SettingsError, match=message):
        train(chosen)


ADAPTERS = ("lora_rank=8", "lora.rank=8", "lora_adapter_path=there")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        *((f"model_engine={e}", f"got '{e}'") for e in ("megatron", "veomni", "torchtitan")),
        *((f"actor_rollout_ref.model.{a}", f"{a}: pools and") for a in ADAPTERS),
    ],
)
@pytest.mark.parametrize(("name", "command"), [("dph_train", train), ("dph_presample", presample)])
def test_an_engine_without_rehearsal_and_adapters_are_refused(
    composed, small_pool, name, command, override, said
):
    with pytest.raises(SettingsError, match=said):
        command(composed(name, f"dph.pool={small_pool}", override))
