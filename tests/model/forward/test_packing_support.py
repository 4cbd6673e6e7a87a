import logging

import pytest
import torch

from counting_device import CountingDevice
from dph.model.forward import sharing
from dph.model.forward.sharing import packing_support
from dph.model.loading import load_model, load_tokenizer
from smollm2_model import smollm2  # noqa: F401
from tiny_models import PLAIN_FAMILIES

REFUSED = {
    "bloom": "no position_ids",
    "mamba": "no position_ids",
    "mistral_window": "the last 5 tokens only",
    "gpt_oss": "s_aux",
}

SOME_FAMILIES = ["llama_gqa", "gpt2", "gemma2_capped", "granite"]


@pytest.mark.parametrize("family", PLAIN_FAMILIES)
def test_families_with_plain_causal_attention_are_supported(make_model, family):
    assert packing_support(make_model(family)).refusal is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("family", ["llama", "llama_gqa", "qwen2"])
def test_they_are_supported_in_training_on_a_gpu(make_model, family):
    assert packing_support(make_model(family).cuda().train()).refusal is None


def on_a_gpu(model):
    """The check on the counting device, as in training in 16 bits, and what it launched."""
    with CountingDevice(where=False) as device, device.counting("check") as counts:
        device.move(model)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return packing_support(model).refusal, counts


@pytest.mark.parametrize("family", SOME_FAMILIES)
def test_values_and_gradients_are_checked_on_a_gpu_in_both_precisions(make_model, family):
    assert on_a_gpu(make_model(family))[0] is None


class WrongGradient(sharing.PackedAttention):
    """The right values; gradients of values are off by a part of themselves."""

    def __call__(self, module, query, key, value, **options):
        value = value + self.off * (value - value.detach())
        return super().__call__(module, query, key, value, **options)


@pytest.mark.parametrize("off", [1.0, 0.001])
def test_on_a_gpu_gradients_that_are_off_by_a_thousandth_are_found(make_model, monkeypatch, off):
    monkeypatch.setattr(WrongGradient, "off", off, raising=False)
    monkeypatch.setattr(sharing, "PackedAttention", WrongGradient)
    assert "change its gradients" in on_a_gpu(make_model())[0]


def test_the_check_is_a_few_passes_whatever_the_draws(make_model):
    counts = [on_a_gpu(make_model(num_hidden_layers=layers))[1] for layers in (1, 2)]
    # Two precisions; in each, values are 3 passes without a gradient and gradients 4 with one.
    # A layer has about 100 kernels forward and twice as many backward: 3 + 4 x 3 passes.
    assert counts[1].launches - counts[0].launches <= 2 * 15 * 100
    assert counts[0].waits == counts[1].waits <= 50


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


def test_dropout_in_training_is_refused_and_windows_and_modes_are_the_models_own(make_model):
    model = make_model(attention_dropout=0.1)
    assert packing_support(model.train()).refusal == "it trains with dropout"
    assert packing_support(model.eval()).refusal is None
    assert packing_support(make_model("gemma2")).window == 64
    model = make_model().train()
    assert packing_support(model).window == torch.inf
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    lost = make_model()  # no reason to refuse
    torch.nn.init.constant_(lost.model.norm.weight, float("nan"))
    assert packing_support(lost).refusal is None


@pytest.mark.filterwarnings("ignore::FutureWarning")  # newer releases have a newer name
def test_checkpointing_that_recomputes_with_another_attention_is_found_once_it_learns(make_model):
    model = make_model().train().requires_grad_(False)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert packing_support(model).refusal is None
    refusal = packing_support(model.requires_grad_(True)).refusal
    assert "backward pass" in refusal or "gradients" in refusal
    assert packing_support(model.eval()).refusal is None


@pytest.mark.parametrize("learns", [True, False])  # the reference model does not
def test_our_checkpointing_keeps_the_attention(make_model, tmp_path, learns):
    make_model("llama_gqa").save_pretrained(tmp_path)
    model = load_model(tmp_path, device="cpu", gradient_checkpointing=True).train()
    assert packing_support(model.requires_grad_(learns)).refusal is None


PROMPT = "How many heads of the departments are older than 56? List their names and ages."


def looking_back(module, strength):
    """Make a module see the token before, past every attention mask."""
    return module.register_forward_hook(lambda _m, _i, out: out + strength * out.roll(1, dims=1))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "autocast", "bfloat16"])
def test_a_real_model_is_shared_in_every_precision_and_a_wrong_one_is_not(smollm2, precision):  # noqa: F811
    prompts = [load_tokenizer(smollm2)(PROMPT)["input_ids"]]
    weights = "bfloat16" if precision == "bfloat16" else "float32"

    def refusal(wrong_layer=None):
        model = load_model(smollm2, device="cpu", weights=weights, gradient_checkpointing=True)
        model.train(wrong_layer is None)  # whose gradients are looked at as well
        if wrong_layer is not None:
            looking_back(model.model.layers[wrong_layer].mlp, 1.0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "autocast"):
            return packing_support(model, prompts).refusal

    assert refusal() is None
    assert refusal(wrong_layer=0) == "packed rows change its values"


@pytest.mark.parametrize("strength", [1.0, 0.001])
def test_in_single_precision_a_thousandth_of_a_neighbour_is_found(make_model, strength):
    model = make_model()
    looking_back(model.model.layers[0].mlp, strength)
    assert packing_support(model).refusal == "packed rows change its values"


@pytest.mark.parametrize("rounded", ["weights", "autocast"])
@pytest.mark.parametrize("family", SOME_FAMILIES)
def test_rounding_to_sixteen_bits_is_no_reason_to_refuse(make_model, family, rounded):
    model = make_model(family)
    if rounded == "weights":
        model.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=rounded == "autocast"):
        assert packing_support(model).refusal is None
