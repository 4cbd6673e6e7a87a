import logging

import pytest
from transformers import HfArgumentParser

from dph.engines.trl import DPHConfig
from dph.errors import SettingsError
from engines.trl.test_terms import make


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool": ""}, r"eta=0.01 needs a pool"),
        ({"divergence": "forwrd_kl"}, r"there is no 'forwrd_kl': .*; did you mean 'forward_kl'\?"),
        ({"eta": -1.0}, r"eta: Input should be greater than or equal to 0, got -1.0"),
        ({"eta": float("nan")}, r"eta: .*got nan"),
        ({"divergence": "none", "eta": 0.1}, r"eta=0.1 needs a divergence"),
        ({"divergence": "alpha", "alpha": 1.0}, r"alpha: .*less than 1, got 1.0"),
        ({"forward_kl_form": "k2"}, r"forward_kl_form: .*got 'k2'"),
        ({"rehearsal_per_step": 0}, r"rehearsal_per_step must be a whole number .* got 0"),
        ({"rehearsal_per_step": 1.5}, r"rehearsal_per_step must be a whole number .* got 1.5"),
        ({"fp16": True, "bf16": None}, r"fp16=True: use bf16=True"),
        ({"dynamic_sampling": True}, r"dynamic_sampling=True: .*`dph train`.*verl"),
        ({"js_definition": True}, r"js_definition=True: .*`dph train`.*jensen_shannon"),
    ],
)
def test_what_is_out_of_range_or_impossible_in_trl_is_named_with_its_value(
    tmp_path, changes, message
):
    with pytest.raises(SettingsError, match=message):
        make(tmp_path, **changes)


def test_eta_zero_needs_no_pool_and_the_precision_is_that_of_the_forward(tmp_path):
    assert not make(tmp_path, eta=0.0, pool="").objective.rehearses
    assert make(tmp_path).precision == "float32"
    assert make(tmp_path, bf16=True).precision == "bfloat16"


def test_checkpoints_inside_a_rollout_are_warned_of(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        make(tmp_path, steps_per_generation=4, save_steps=10, save_strategy="steps")
    assert "save_steps=10 is not a multiple of the 4 optimizer steps" in caplog.text
    caplog.clear()
    make(tmp_path, steps_per_generation=4, save_steps=12, save_strategy="steps")
    make(tmp_path, steps_per_generation=4, save_steps=0.1, save_strategy="steps")  # of the run
    make(tmp_path, steps_per_generation=4, save_steps=10, save_strategy="no")
    assert "save_steps" not in caplog.text


def test_the_command_line_of_trl_knows_the_settings_and_takes_the_objective_as_json(tmp_path):
    common = ["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "False", "--pool", "there"]
    arguments = [*common, "--eta", "0.2", "--divergence", "jensen_shannon"]
    (config,) = HfArgumentParser(DPHConfig).parse_args_into_dataclasses(arguments)
    assert (config.pool, config.eta, config.divergence) == ("there", 0.2, "jensen_shannon")
    objective = '{"anchors": {"far": {"divergence": "alpha", "weight": 0.2}}}'
    arguments = [*common, "--objective", objective]
    (config,) = HfArgumentParser(DPHConfig).parse_args_into_dataclasses(arguments)
    (anchor,) = config.terms.anchors.values()
    assert (anchor.divergence, anchor.weight, anchor.parameters) == ("alpha", 0.2, {"alpha": 0.5})


def test_an_anchor_without_a_store_of_its_own_needs_the_pool(tmp_path):
    anchors = {"far": {"divergence": "alpha", "weight": 0.2}}
    with pytest.raises(SettingsError, match=r"objective.anchors.far.weight=0.2 needs a pool"):
        make(tmp_path, pool="", objective={"anchors": anchors})
    anchors["far"]["samples"] = "pool:somewhere"
    assert make(tmp_path, pool="", objective={"anchors": anchors}).terms.rehearses
