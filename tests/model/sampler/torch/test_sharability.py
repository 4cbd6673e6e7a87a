import math

import pytest
import torch

from dph.model.attention.releases import attention_window
from dph.model.loading import load_model, load_tokenizer
from dph.model.sampler.torch.shared_forward import sharing_refusal, window_refusal
from smollm2_model import smollm2  # noqa: F401
from tiny_models import FAMILIES, build_model


@pytest.mark.parametrize(
    ("family", "reach"),
    [("llama", math.inf), ("gpt2", math.inf), ("gemma2", 64), ("mistral_window", 5)],
)
def test_the_window_is_that_of_the_layer_that_sees_least(family, reach):
    assert attention_window(build_model(family)) == reach


@pytest.mark.parametrize(
    ("family", "attention"),
    [
        *((family, "eager") for family in FAMILIES if family != "bloom"),
        *((family, "sdpa") for family in FAMILIES if family not in ("bloom", "gemma2")),
    ],
)
def test_models_that_attend_through_the_registry_share_prompts(family, attention):
    model = build_model(family)
    model.config._attn_implementation = attention
    with torch.no_grad():
        assert sharing_refusal(model) is None
    assert model.config._attn_implementation == attention


@pytest.mark.parametrize(
    ("family", "refusal"),
    [
        ("bloom", "its forward takes no position_ids"),  # ALiBi, outside the registry
        ("gpt_oss", "packed attention cannot compute s_aux (GptOssAttention)"),
    ],
)
def test_models_that_attend_otherwise_do_not(family, refusal):
    with torch.no_grad():
        assert sharing_refusal(build_model(family)) == refusal


def test_a_model_whose_layers_have_no_numbers_does_not():
    model = build_model("llama")
    for layer in model.model.layers:
        del layer.self_attn.layer_idx
    with torch.no_grad():
        assert "LlamaAttention" in sharing_refusal(model)


def test_rows_beyond_a_window_are_refused_with_both_lengths():
    model = build_model("mistral_window")
    assert window_refusal(model, 5) is None
    assert window_refusal(model, 6) == "a row may have 6 tokens, a layer attends to the last 5"


def test_lost_weights_are_left_to_the_sampler_to_report():
    model = build_model("llama")
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
        assert sharing_refusal(model) is None


def looking_back(module):
    """Make a module see the token before, past every attention mask."""
    return module.register_forward_hook(lambda _m, _i, out: out + out.roll(1, dims=1))


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
def test_a_real_model_shares_prompts_in_every_precision_and_a_wrong_one_does_not(smollm2, weights):  # noqa: F811
    model = load_model(smollm2, device="cpu", weights=weights)
    prompts = [load_tokenizer(smollm2)("How many heads of the departments are older than 56?")]
    prompts = [encoded["input_ids"] for encoded in prompts]
    with torch.no_grad():
        assert sharing_refusal(model, prompts) is None
        looking_back(model.model.layers[0].mlp)
        assert sharing_refusal(model, prompts) == "shared prompts change its logits"


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "bloom"])
def test_rounding_to_sixteen_bits_is_no_reason_to_refuse(family):
    with torch.no_grad():
        assert sharing_refusal(build_model(family).to(torch.bfloat16)) is None
