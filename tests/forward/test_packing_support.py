import logging

import pytest
import torch

from dph.forward.packing_support import packing_support
from dph.models.loading import load_model
from tiny_models import PLAIN_FAMILIES

REFUSED = {
    "bloom": "no position_ids",
    "mamba": "no position_ids",
    "mistral_window": "the last 5 tokens only",
    "gpt_oss": "s_aux",
}


@pytest.mark.parametrize("family", PLAIN_FAMILIES)
def test_families_with_plain_causal_attention_are_supported(make_model, family):
    assert packing_support(make_model(family)).refusal is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", REFUSED)
def test_others_are_refused_with_the_reason_which_is_logged_once(make_model, caplog, family):
    model = make_model(family)
    with caplog.at_level(logging.WARNING, logger="dph"):
        first, second = packing_support(model), packing_support(model)
    assert first is second
    assert REFUSED[family] in first.refusal
    assert [r.message for r in caplog.records if r.name.startswith("dph")] == [
        f"{type(model).__name__}: prompts are not shared in the training forward: {first.refusal}"
    ]


def test_the_window_is_that_of_the_narrowest_layer(make_model):
    assert packing_support(make_model("gemma2")).window == 64
    assert packing_support(make_model("llama")).window == torch.inf


def test_a_model_that_looks_at_its_neighbours_outside_of_attention_is_found(make_model):
    model = make_model()
    model.model.layers[0].mlp.register_forward_hook(lambda _m, _i, out: out + out.roll(1, dims=1))
    assert packing_support(model).refusal == "packed rows change its values"


def test_dropout_in_training_is_refused_and_in_evaluation_it_is_not(make_model):
    model = make_model(attention_dropout=0.1)
    assert packing_support(model.train()).refusal == "it trains with dropout"
    assert packing_support(model.eval()).refusal is None


def test_the_model_is_left_in_its_mode_and_without_gradients(make_model):
    model = make_model().train()
    packing_support(model)
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_lost_weights_are_no_reason_to_refuse(make_model):
    model = make_model()
    torch.nn.init.constant_(model.model.norm.weight, float("nan"))
    assert packing_support(model).refusal is None


@pytest.mark.filterwarnings("ignore::FutureWarning")  # newer releases have a newer name
def test_checkpointing_that_recomputes_with_another_attention_is_found(make_model):
    model = make_model().train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    refusal = packing_support(model).refusal
    assert "backward pass" in refusal or "gradients" in refusal
    assert packing_support(model.eval()).refusal is None


def test_our_checkpointing_keeps_the_attention(make_model, tmp_path):
    make_model("llama_gqa").save_pretrained(tmp_path)
    model = load_model(tmp_path, device="cpu", gradient_checkpointing=True).train()
    assert packing_support(model).refusal is None


def test_a_frozen_model_needs_no_gradients_to_be_supported(make_model, tmp_path):
    # As the reference model: on a GPU gradients are looked at in evaluation mode too.
    make_model().save_pretrained(tmp_path)
    model = load_model(tmp_path, device="cpu", gradient_checkpointing=True).train()
    assert packing_support(model.requires_grad_(False)).refusal is None


@pytest.mark.filterwarnings("ignore::FutureWarning")  # newer releases have a newer name
def test_a_model_that_is_frozen_no_more_is_asked_again(make_model):
    model = make_model().train().requires_grad_(False)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert packing_support(model).refusal is None
    assert packing_support(model.requires_grad_(True)).refusal is not None
