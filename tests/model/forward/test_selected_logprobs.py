import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from torch import nn

from counting_device import CountingDevice
from dph.model.forward import over_vocabulary as module
from dph.model.forward.over_vocabulary import (
    cut_logprobs,
    plain_head,
    selected_logprobs,
    takes_cut_cross_entropy,
)


def problem(tokens=13, size=8, words=29, *, bias=False, dtype=torch.float64):
    torch.manual_seed(0)
    hidden = torch.randn(tokens, size, dtype=dtype, requires_grad=True)
    head = nn.Linear(size, words, bias=bias, dtype=dtype)
    return hidden, head, torch.randint(words, (tokens,)), torch.randn(tokens, dtype=dtype)


def plain(hidden, head, targets, temperature):
    return torch.log_softmax(head(hidden) / temperature, dim=-1).gather(1, targets[:, None])[:, 0]


def gradients(values, weights, hidden, head):
    return torch.autograd.grad(values, [hidden, *head.parameters()], weights.to(values.dtype))


@pytest.fixture(params=[(1, 1), (29, 4), (60, 5), (7, 2048), (2**20, 2048)])
def blocks(request, monkeypatch):
    block, tokens = request.param
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "TOKENS", tokens)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_values_and_gradients_are_those_of_the_plain_form(bias, temperature):
    hidden, head, targets, weights = problem(bias=bias)
    expected = plain(hidden, head, targets, temperature)
    found = selected_logprobs(hidden, head, targets, temperature)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        gradients(found, weights, hidden, head), gradients(expected, weights, hidden, head)
    )


def test_logits_of_a_thousand_do_not_overflow():
    hidden, head, targets, weights = problem(dtype=torch.float32)
    far = (hidden * 1000).detach().requires_grad_()
    expected = plain(far.double(), head.double(), targets, 1.0)
    found = selected_logprobs(far, head.float(), targets, 1.0)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-3)
    assert all(g.isfinite().all() for g in gradients(found, weights, far, head))


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_under_autocast_products_are_rounded_as_in_the_plain_form(given):
    hidden, head, targets, weights = problem(64, 32, 200, bias=True, dtype=torch.float32)
    rough = hidden.detach().to(given).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = selected_logprobs(rough, head, targets, 0.8)
        expected = plain(rough, head, targets, 0.8)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, expected.float(), rtol=0, atol=0.05)
    ours = gradients(found, weights, rough, head)
    theirs = gradients(expected, weights, rough, head)
    assert [g.dtype for g in ours] == [given, torch.float32, torch.float32]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.float(), b.float(), rtol=0, atol=0.05 * float(b.abs().max()))


def test_a_frozen_head_and_no_tokens_are_fine():
    hidden, head, targets, weights = problem()
    head.requires_grad_(False)
    selected_logprobs(hidden, head, targets, 1.0).backward(weights)
    assert hidden.grad is not None
    assert selected_logprobs(hidden[:0], head, targets[:0], 1.0).shape == (0,)


def test_a_first_block_of_words_that_the_bias_rules_out_is_no_problem(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 8)
    hidden, head, _, weights = problem(3, 4, 40, bias=True)
    head.bias.data[:20] = -torch.inf
    targets = torch.tensor([20, 30, 39])
    found, expected = (f(hidden, head, targets, 1.0) for f in (selected_logprobs, plain))
    torch.testing.assert_close(found, expected)
    ours, theirs = (gradients(values, weights, hidden, head) for values in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_no_tensor_of_tokens_times_vocabulary_is_made():
    tokens, words = 512, 2**15
    hidden, head, targets, weights = problem(tokens, 8, words, dtype=torch.float32)
    sizes = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                sizes.append(out.untyped_storage().nbytes() // 4)
            return out

    with Sizes():
        selected_logprobs(hidden, head, targets, 1.0).backward(weights)
    assert max(sizes) <= max(module.BLOCK, head.weight.numel()) < tokens * words / 8


def on_the_device(hidden, head, targets, weights, *, temperature=0.7, autocast=False):
    """Log-probs and gradients on the counting device, and what the passes launched there."""
    with CountingDevice() as device:
        head, states = device.move(head), device.send(hidden).requires_grad_()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            with device.counting("forward"):
                found = selected_logprobs(states, head, device.send(targets), temperature)
            with device.counting("backward"):
                found.backward(device.send(weights))
        results = (found, states.grad, head.weight.grad)
        return [device.numbers(x.detach()) for x in results], device.counts


@pytest.mark.parametrize("autocast", [False, True])
def test_a_gpu_gets_a_few_wide_blocks_and_the_host_never_waits(monkeypatch, autocast):
    words, tokens = 151_936, 2048
    assert -(-words // (module.CUDA_BLOCK // tokens)) == 3
    # The same in small: a 32nd of the tokens and of the words.
    monkeypatch.setattr(module, "CUDA_BLOCK", module.CUDA_BLOCK // 32**2)
    inputs = problem(tokens // 32, 4, words // 32, dtype=torch.float32)
    _, counts = on_the_device(*inputs, temperature=1.0, autocast=autocast)
    assert counts["forward"].launches <= 45
    assert counts["backward"].launches <= 45
    assert counts["forward"].waits == counts["backward"].waits == 0


@pytest.mark.parametrize("block", [(7, 2048), (60, 5), (2**27, 4096)])
def test_on_a_gpu_values_and_gradients_are_those_of_the_plain_form(monkeypatch, block):
    monkeypatch.setattr(module, "CUDA_BLOCK", block[0])
    monkeypatch.setattr(module, "CUDA_TOKENS", block[1])
    hidden, head, targets, weights = problem(dtype=torch.float32)
    expected = plain(hidden, head, targets, 0.7)
    theirs = expected.detach(), *gradients(expected, weights, hidden, head)
    ours, _ = on_the_device(hidden, head, targets, weights)
    torch.testing.assert_close(ours, list(theirs), rtol=1e-5, atol=1e-6)


def test_sixteen_bit_products_on_a_gpu_are_not_rounded_before_the_softmax():
    # Numbers of 8 bits, so that the products are exact, and logits near 1000, which 8 bits round
    # by up to 2.
    hidden, head, targets, weights = problem(64, 32, 200, dtype=torch.float32)
    hidden = (hidden * 100).bfloat16().float().detach()
    head.weight.data = (head.weight.data * 10).bfloat16().float()
    expected = plain(hidden.double(), head.double(), targets, 0.7)
    head.float()
    (found, *_), _ = on_the_device(hidden, head, targets, weights, autocast=True)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-3)


def test_the_plain_head_is_the_output_layer_of_a_model_that_leaves_its_logits_alone(make_model):
    for family in ("llama", "qwen2", "gpt2", "gemma", "mixtral"):
        model = make_model(family)
        assert plain_head(model) is model.get_output_embeddings(), family
    for family in ("gemma2", "granite"):  # softcaps and logit scales
        assert plain_head(make_model(family)) is None, family
    narrow = make_model()  # hidden states are not of the head's size
    narrow.model.norm.register_forward_hook(lambda _m, _i, out: out[..., :16])
    assert plain_head(narrow) is None


def test_a_head_is_plain_in_a_forward_that_a_trainer_left_in_its_precision(make_model):
    for family, plain in (("llama", True), ("gemma2", False)):
        model = make_model(family)
        model._original_forward = model.forward  # as accelerate does
        model.forward = torch.autocast("cpu", dtype=torch.bfloat16)(model.forward)
        assert (plain_head(model) is not None) == plain, family


def test_heads_that_are_no_linear_layer_or_have_hooks_are_left_alone(make_model):
    model = make_model()
    assert plain_head(model) is not None
    handle = model.lm_head.register_forward_hook(lambda _m, _i, out: out)
    assert plain_head(model) is None
    handle.remove()
    model.lm_head = torch.nn.Sequential(model.lm_head)
    assert plain_head(model) is None
    model.get_output_embeddings = lambda: None
    assert plain_head(model) is None


@pytest.fixture
def calls(monkeypatch):
    """A stand-in for CUDA's cut_cross_entropy, computing the plain form and noting its calls."""
    noted = []

    def linear_cross_entropy(
        e, c, targets, ignore_index=-100, softcap=None, reduction="mean", shift=False, filter_eps=""
    ):
        noted.append((e.dtype, c.dtype, reduction, filter_eps))
        assert (ignore_index, softcap, shift) == (-100, None, False)
        return nn.functional.cross_entropy(e.float() @ c.float().T, targets, reduction=reduction)

    package = ModuleType("cut_cross_entropy")
    package.linear_cross_entropy = linear_cross_entropy
    package.__spec__ = ModuleSpec("cut_cross_entropy", None)
    monkeypatch.setitem(sys.modules, "cut_cross_entropy", package)
    return noted


def test_cut_log_probs_are_those_of_the_plain_form_without_filtered_gradients(calls):
    hidden, head, targets, _ = problem(dtype=torch.float32)
    found = cut_logprobs(hidden, head.weight, targets, 0.7, dtype=torch.bfloat16)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, plain(hidden, head, targets, 0.7), rtol=0, atol=0.05)
    assert calls == [(torch.bfloat16, torch.bfloat16, "none", None)]


@pytest.mark.usefixtures("calls")
def test_cut_cross_entropy_is_for_cuda_and_sixteen_bits_where_there_is_the_package(monkeypatch):
    assert takes_cut_cross_entropy("cuda", torch.bfloat16)
    assert not takes_cut_cross_entropy("cuda", torch.float32)
    assert not takes_cut_cross_entropy("cpu", torch.bfloat16)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert not takes_cut_cross_entropy("cuda", torch.bfloat16)


def test_it_is_used_where_it_can_be_and_the_blocks_elsewhere(calls, monkeypatch):
    hidden, head, targets, _ = problem(dtype=torch.float32)
    expected = plain(hidden, head, targets, 1.0)
    selected_logprobs(hidden, head, targets, 1.0)
    assert not calls
    monkeypatch.setattr(module, "takes_cut_cross_entropy", lambda *_: True)
    torch.testing.assert_close(selected_logprobs(hidden, head, targets, 1.0), expected)
    assert len(calls) == 1
    biased = nn.Linear(8, 29)  # it takes no bias
    selected_logprobs(hidden, biased, targets, 1.0)
    assert len(calls) == 1
