"""The CUDA kernels' logic with operators that compute on the CPU what torch's compute there."""

import pytest
import torch
from torch.nn import functional

from dph.model.attention.kernels import (
    EfficientCuda,
    Explicit,
    FlashCpu,
    FlashCuda,
    Scoring,
    device_kernel_for,
)
from dph.model.forward import packed_attention
from dph.model.forward.packed_attention import PackedAttention
from dph.model.forward.packing import pack

SEED, OFFSET = torch.tensor([1]), torch.tensor([2])


class FlashOperators:
    """By the schema of aten: positions of arguments and results matter."""

    @staticmethod
    def _scaled_dot_product_flash_attention(
        query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None
    ):
        assert not dropout_p
        assert not return_debug_mask
        assert all(x.is_contiguous() for x in (query, key, value))
        out, log_sum = Explicit().forward(query, key, value, Scoring(scale, causal=is_causal))
        return out, log_sum, None, None, query.shape[2], key.shape[2], SEED, OFFSET, torch.empty(0)

    @staticmethod
    def _scaled_dot_product_flash_attention_backward(
        grad_out,
        query,
        key,
        value,
        out,
        logsumexp,
        cum_seq_q,
        cum_seq_k,
        max_q,
        max_k,
        dropout_p,
        is_causal,
        philox_seed,
        philox_offset,
        *,
        scale=None,
    ):
        assert (cum_seq_q, cum_seq_k, dropout_p) == (None, None, 0.0)
        assert (max_q, max_k) == (query.shape[2], key.shape[2])
        assert philox_seed is SEED
        assert philox_offset is OFFSET
        scoring = Scoring(scale, causal=is_causal)
        return Explicit().backward(grad_out, query, key, value, out, logsumexp, scoring)


class EfficientOperators:
    @staticmethod
    def _scaled_dot_product_efficient_attention(
        query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale
    ):
        assert attn_bias is None
        assert compute_log_sumexp
        assert not dropout_p
        out, log_sum = Explicit().forward(query, key, value, Scoring(scale, causal=is_causal))
        padded = functional.pad(log_sum, (0, -query.shape[2] % 32), value=torch.inf)
        return out, padded, SEED, OFFSET

    @staticmethod
    def _scaled_dot_product_efficient_attention_backward(
        grad_out,
        query,
        key,
        value,
        attn_bias,
        out,
        logsumexp,
        philox_seed,
        philox_offset,
        dropout_p,
        grad_input_mask,
        is_causal=False,
        *,
        scale=None,
    ):
        assert attn_bias is None
        assert logsumexp.shape[2] % 32 == 0
        assert logsumexp.is_contiguous()
        assert logsumexp[..., query.shape[2] :].isposinf().all()
        assert philox_seed is SEED
        assert philox_offset is OFFSET
        assert not dropout_p
        assert grad_input_mask == [True, True, True, False]
        log_sum = logsumexp[..., : query.shape[2]]
        scoring = Scoring(scale, causal=is_causal)
        return (*Explicit().backward(grad_out, query, key, value, out, log_sum, scoring), None)


KERNELS = [(FlashCuda, FlashOperators), (EfficientCuda, EfficientOperators)]


LENGTHS = [(4, 2, 1, 3, 3, 5), (33, 65, 97, 33, 65, 32)]
"""Of completions; the second gives the kernels tables of 32 queries."""


@pytest.mark.parametrize(("kernel", "operators"), KERNELS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_packed_attention_through_a_cuda_kernel_is_that_through_the_cpus(
    monkeypatch, kernel, operators, lengths
):
    prompts = [[1, 2, 3]] * 3 + [[4, 5]] * 2 + [[6]]
    completions = [[7] * n for n in lengths]
    rows = pack(prompts, completions, device=torch.device("cpu"), least_saved=0)
    assert len(rows.levels) > 1
    torch.manual_seed(0)
    tensors = [torch.randn(1, heads, len(rows.ids), 8, requires_grad=True) for heads in (4, 2, 2)]
    results = []
    for choice in (lambda *_, **__: FlashCpu(), lambda *_, **__: kernel(operators)):
        monkeypatch.setattr(packed_attention, "device_kernel_for", choice)
        monkeypatch.setattr(packed_attention, "_WASTE", 0)  # as on CUDA: no padded stems
        attention = PackedAttention(rows)
        assert all(some.bias is None for some in attention.shared)
        out = attention(torch.nn.Identity(), *tensors)
        results.append((out, *torch.autograd.grad(out.square().sum(), tensors)))
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    ("dtype", "kernel", "within"),
    [(torch.float32, EfficientCuda, 1e-4), (torch.bfloat16, FlashCuda, 3e-2)],
)
@pytest.mark.parametrize("lengths", [(40, 2, 17, 30, 3, 5), *LENGTHS])
def test_packed_attention_on_a_gpu_is_that_in_float64(dtype, kernel, within, lengths):
    prompts = [[1, 2, 3] * 9] * 3 + [[4, 5] * 20] * 2 + [[6]]
    completions = [[7] * n for n in lengths]
    torch.manual_seed(0)
    exact = pack(prompts, completions, device=torch.device("cpu"), least_saved=0)
    tensors = [torch.randn(1, heads, len(exact.ids), 64).to(dtype) for heads in (9, 3, 3)]
    assert isinstance(device_kernel_for(tensors[0].cuda(), tensors[2].cuda(), softcap=None), kernel)
    results = []
    for device, precision in (("cpu", torch.float64), ("cuda", dtype)):
        rows = pack(prompts, completions, device=torch.device(device), least_saved=0)
        inputs = [t.to(device, precision).requires_grad_() for t in tensors]
        out = PackedAttention(rows)(torch.nn.Identity(), *inputs)
        found = (out, *torch.autograd.grad(out.square().sum(), inputs))
        results.append([x.detach().cpu().double() for x in found])
    for ours, theirs in zip(*reversed(results), strict=True):
        assert (ours - theirs).abs().max() <= within * theirs.abs().max()


class OnCuda:
    """What a kernel is chosen by."""

    device = torch.device("cuda")

    def __init__(self, dtype, size=64):
        self.dtype, self.shape = dtype, (1, 4, 10, size)


@pytest.mark.parametrize(
    ("tensor", "softcap", "kernel"),
    [
        (OnCuda(torch.bfloat16), None, FlashCuda),
        (OnCuda(torch.float16, 256), None, FlashCuda),
        (OnCuda(torch.float32), None, EfficientCuda),
        (OnCuda(torch.bfloat16, 12), None, Explicit),
        (OnCuda(torch.bfloat16, 512), None, Explicit),
        (OnCuda(torch.float64), None, Explicit),
        (OnCuda(torch.bfloat16), 30.0, Explicit),
        (torch.zeros(1, 4, 10, 64), None, FlashCpu),
    ],
)
def test_each_input_gets_a_kernel_that_takes_it(tensor, softcap, kernel):
    assert isinstance(device_kernel_for(tensor, tensor, softcap=softcap), kernel)


def test_the_operators_are_there_under_these_names_with_these_arguments():
    flash = torch.ops.aten._scaled_dot_product_flash_attention_backward.default._schema
    assert [a.name for a in flash.arguments][5:14] == [
        "logsumexp",
        "cum_seq_q",
        "cum_seq_k",
        "max_q",
        "max_k",
        "dropout_p",
        "is_causal",
        "philox_seed",
        "philox_offset",
    ]
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default._schema
    assert [a.name for a in efficient.arguments][4:12] == [
        "attn_bias",
        "out",
        "logsumexp",
        "philox_seed",
        "philox_offset",
        "dropout_p",
        "grad_input_mask",
        "is_causal",
    ]
