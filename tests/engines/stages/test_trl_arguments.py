"""A recipe as fields of TRL: steps, rows and stored answers, by arithmetic."""

from pathlib import Path

import pytest

from dph.engines.stages.trl_stage import batches_of, trl_arguments
from dph.errors import SettingsError
from engines.stages.recipes import make_recipe


def told(recipe, *, longest=10, cuda=False):
    return trl_arguments(recipe, Path("run"), longest_prompt=longest, cuda=cuda)


def test_a_step_is_a_rollout_and_trl_counts_its_optimizer_steps():
    found = told(make_recipe("trl"))
    # 6 x 4 rows in 2 mini-batches are 12 rows an optimizer step; 3 epochs make 6 of a rollout.
    assert found["per_device_train_batch_size"] * found["gradient_accumulation_steps"] == 12
    assert found["steps_per_generation"] == 2 * found["gradient_accumulation_steps"]
    assert (found["num_iterations"], found["max_steps"], found["save_steps"]) == (3, 60, 30)


@pytest.mark.parametrize(
    ("tokens", "processes", "rows", "micro_steps"),
    [(16384, 1, 12, 1), (120, 1, 4, 3), (30, 1, 1, 12), (1, 1, 1, 12), (120, 2, 3, 2)],
)
def test_micro_steps_are_the_largest_that_fit(tokens, processes, rows, micro_steps):
    recipe = make_recipe("trl", **{"train.microbatch_tokens": tokens, "trl.processes": processes})
    # A row has at most 10 + 20 tokens: 120 tokens hold four of them.
    found = batches_of(recipe, longest_prompt=10)
    assert (found.rows, found.micro_steps) == (rows, micro_steps)


def test_rows_that_do_not_divide_by_the_processes_are_refused():
    with pytest.raises(SettingsError, match=r"24 rows do not divide.*trl\.processes = 5"):
        told(make_recipe("trl", **{"trl.processes": 5}))


def test_a_rollouts_stored_answers_are_dealt_out_to_its_optimizer_steps():
    assert told(make_recipe("trl"))["rehearsal_per_step"] == 4
    own = make_recipe("trl", **{"objective.anchors.rehearsal.per_step": 6})
    assert told(own)["objective"]["anchors"]["rehearsal"]["per_step"] == 3
    most = make_recipe("trl", **{"objective.anchors.rehearsal.tokens_per_step": 101})
    assert told(most)["objective"]["anchors"]["rehearsal"]["tokens_per_step"] == 50
    with pytest.raises(SettingsError, match=r"train\.rehearsal_per_step = 7 does not divide"):
        told(make_recipe("trl", **{"train.rehearsal_per_step": 7}))


def test_a_pool_is_named_only_where_it_is_rehearsed():
    assert told(make_recipe("trl"))["pool"] == "run/pool"
    assert told(make_recipe("trl", "grpo"))["pool"] == ""


def test_a_store_of_distributions_is_named_with_its_tilt():
    changes = {"stores.broad.file": "p.jsonl", "stores.after.file": "p.jsonl"}
    found = told(make_recipe("trl", "dph_broad", **changes))["stores"]
    assert found == {
        "broad": {
            "place": "run/stores/broad",
            "tilt": 4.0,
            "values": "distinct",
            "targets": "distributions",
        }
    }


def test_vllm_draws_where_it_is_asked_for():
    assert "use_vllm" not in told(make_recipe("trl"))
    asked = {"sampling.engine": "vllm", "vllm.memory": 0.4, "vllm.context": 512}
    found = told(make_recipe("trl", **asked), cuda=True)
    assert found["use_vllm"] is True
    assert found["vllm_gpu_memory_utilization"] == 0.4
    assert found["vllm_max_model_length"] == 512
    with pytest.raises(SettingsError, match=r"sampling\.stop"):
        told(make_recipe("trl", **asked, **{"sampling.stop": ["<end>"]}))


def test_several_processes_without_a_gpu_talk_by_gloo():
    several = make_recipe("trl", **{"trl.processes": 2})
    assert told(several)["ddp_backend"] == "gloo"
    assert "ddp_backend" not in told(several, cuda=True)
    assert told(several, cuda=True)["use_cpu"] is False
