import pytest
import torch

from dph.model.attention.kernels import AttentionPart, Explicit, FlashCpu, Scoring, kernel_for

PLAIN = Scoring(0.3)
BIAS = torch.tensor([0.0, 0.0, 0.0, -torch.inf, 0.0, -torch.inf])[None, None, None]
SCORINGS = {
    "plain": PLAIN,
    "causal": Scoring(0.3, causal=True),
    "bias": Scoring(0.3, bias=BIAS.expand(2, 1, 1, 6)),
    "softcap": Scoring(0.3, softcap=0.5, causal=True),
}
CASES = [
    (kernel, name)
    for kernel in (FlashCpu(), Explicit())
    for name in SCORINGS
    if not (isinstance(kernel, FlashCpu) and name == "softcap")
]


def inputs(queries=6, keys=6, dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(2, 3, n, 4, dtype=dtype, requires_grad=True) for n in (queries, keys, keys)]


def scores(query, key, scoring):
    s = query @ key.transpose(-1, -2) * scoring.scaling
    if scoring.softcap:
        s = scoring.softcap * torch.tanh(s / scoring.softcap)
    if scoring.causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return s if scoring.bias is None else s + scoring.bias


@pytest.mark.parametrize(("kernel", "name"), CASES)
def test_values_log_sums_and_gradients_are_those_of_softmax_attention(kernel, name):
    query, key, value = inputs()
    s = scores(query, key, SCORINGS[name])
    expected = s.softmax(-1) @ value
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (query, key, value), grad)
    with torch.no_grad():
        out, log_sum = kernel.forward(query, key, value, SCORINGS[name])
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(log_sum.double(), s.logsumexp(-1), rtol=1e-6, atol=1e-6)
        found = kernel.backward(
            grad, (query, key, value), AttentionPart(out, log_sum), SCORINGS[name]
        )
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", [FlashCpu(), Explicit()])
def test_parts_with_the_whole_log_sum_give_the_whole_gradient(kernel):
    query, key, value = inputs(queries=3, keys=7)
    expected = scores(query, key, PLAIN).softmax(-1) @ value
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (query, key, value), grad)
    with torch.no_grad():
        whole = AttentionPart(expected, scores(query, key, PLAIN).logsumexp(-1))
        parts = [
            kernel.backward(grad, (query, key[:, :, a:b], value[:, :, a:b]), whole, PLAIN)
            for a, b in ((0, 3), (3, 7))
        ]
    torch.testing.assert_close(parts[0][0] + parts[1][0], wanted[0], rtol=1e-6, atol=1e-6)
    for place in (1, 2):
        whole = torch.cat([part[place] for part in parts], dim=2)
        torch.testing.assert_close(whole, wanted[place], rtol=1e-6, atol=1e-6)


def test_expanded_keys_need_no_copy():
    query, key, value = inputs(dtype=torch.float32)
    wide = [x.detach()[:, :1].expand(-1, 3, -1, -1) for x in (key, value)]
    copies = [x.contiguous() for x in wide]
    for kernel in (FlashCpu(), Explicit()):
        results = []
        for pair in (wide, copies):
            part = kernel.forward(query.detach(), *pair, PLAIN)
            results.append(kernel.backward(part.out, (query.detach(), *pair), part, PLAIN))
        torch.testing.assert_close(results[0], results[1])


def test_flash_is_chosen_for_what_it_can_compute():
    query, _, value = inputs(dtype=torch.float32)
    assert isinstance(kernel_for(query, value, softcap=None), FlashCpu)
    assert isinstance(kernel_for(query, value, softcap=3.0), Explicit)
    assert isinstance(kernel_for(query.double(), value.double(), softcap=None), Explicit)
    assert isinstance(kernel_for(query, value[..., :3], softcap=None), Explicit)
    meta = query.detach().to("meta")
    assert isinstance(kernel_for(meta, meta, softcap=None), Explicit)
