"""FlashAttention of packed sequences: when it is taken, by which names, and on a GPU its values."""

from itertools import accumulate

import pytest
import torch

from counting_device import CountingDevice
from counting_device.attention import PackedFlash
from dph.model.attention.kernels import (
    Explicit,
    Segments,
    flash,
    flash_backward,
    kernel_for,
    takes_flash,
)


@pytest.mark.parametrize(
    ("dtype", "size", "value_size", "softcap", "taken"),
    [
        (torch.bfloat16, 64, 64, None, True),
        (torch.float16, 256, 256, None, True),
        (torch.bfloat16, 8, 8, None, True),
        (torch.float32, 64, 64, None, False),
        (torch.float64, 64, 64, None, False),
        (torch.bfloat16, 12, 12, None, False),
        (torch.bfloat16, 264, 264, None, False),
        (torch.bfloat16, 64, 32, None, False),
        (torch.bfloat16, 64, 64, 30.0, False),
    ],
)
def test_it_is_taken_where_the_kernel_takes_it_and_on_a_cpu_never(
    dtype, size, value_size, softcap, taken
):
    query, value = (
        torch.zeros(10, 4, size, dtype=dtype),
        torch.zeros(10, 4, value_size, dtype=dtype),
    )
    assert not takes_flash(query, value, softcap=softcap)
    with CountingDevice() as device:
        there = device.send(query), device.send(value)
        assert takes_flash(*there, softcap=softcap) is taken
        assert isinstance(kernel_for(*there, softcap=softcap), Explicit)


def test_it_is_not_taken_on_gpus_before_ampere(monkeypatch):
    with CountingDevice() as device:
        query = device.send(torch.zeros(10, 4, 64, dtype=torch.float16))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
        assert not takes_flash(query, query, softcap=None)


def test_the_operators_are_there_under_these_names_with_these_arguments():
    forward = torch.ops.aten._flash_attention_forward.default._schema
    places = ["cum_seq_q", "cum_seq_k", "max_q", "max_k", "dropout_p", "is_causal"]
    names = [a.name for a in forward.arguments]
    assert names[:10] == ["query", "key", "value", *places, "return_debug_mask"]
    assert {"scale", "seqused_k"} <= {a.name for a in forward.arguments if a.kwarg_only}
    assert len(forward.returns) == 5
    backward = torch.ops.aten._flash_attention_backward.default._schema
    names = [a.name for a in backward.arguments]
    assert names[:6] == ["grad_out", "query", "key", "value", "out", "logsumexp"]
    assert names[6:12] == places
    assert names[14] == "scale"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("used", [None, [7, 3, 0, 30]])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize(
    "lengths",
    [
        [(7, 7), (40, 40), (1, 5), (33, 300)],
        [(7, 7), (40, 40), (0, 5), (5, 33)],  # nobody asks for the third segment's keys
        [(1, 7), (1, 40), (1, 5), (1, 300)],  # the kernel moves grouped heads to the queries
    ],
)
def test_on_a_gpu_it_is_what_the_counting_device_computes(lengths, kv_heads, causal, used):
    torch.manual_seed(0)
    queries, keys = ([*accumulate(side, initial=0)] for side in zip(*lengths, strict=True))
    shapes = (queries[-1], 4), (keys[-1], kv_heads), (keys[-1], kv_heads), (queries[-1], 4)
    *tensors, grad = (torch.randn(*shape, 64).bfloat16() for shape in shapes)
    bounds = [torch.tensor(side, dtype=torch.int32) for side in (queries, keys)]
    longest = [max(side) for side in zip(*lengths, strict=True)]
    given = None if used is None else torch.tensor(used, dtype=torch.int32)
    plain, options = PackedFlash(exact=True), {"scale": 0.125, "seqused_k": given}
    exact = [x.double() for x in tensors]
    wanted = plain.forward(*exact, *bounds, *longest, 0.0, causal, False, **options)
    sent = [x.cuda() for x in tensors]
    segments = Segments(*(x.cuda() for x in bounds), *longest)
    given = None if given is None else given.cuda()
    part = flash(*sent, segments, scaling=0.125, causal=causal, used=given)
    close(part.out, wanted[0])
    torch.testing.assert_close(part.log_sum.cpu().double(), wanted[1], rtol=0, atol=3e-2)
    if used is None:
        state = wanted[2:4]
        rest = (grad.double(), *exact, *wanted[:2], *bounds, *longest, 0.0, causal, *state)
        found = flash_backward(grad.cuda(), *sent, part, segments, scaling=0.125, causal=causal)
        for ours, theirs in zip(found, plain.backward(*rest, scale=0.125), strict=True):
            close(ours, theirs)


def close(found, wanted, within=3e-2):
    assert found.shape == wanted.shape
    assert (found.cpu().double() - wanted).abs().max() <= within * wanted.abs().max()
