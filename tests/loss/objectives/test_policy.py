import math
from functools import partial

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.objectives import (
    ClippedSurrogate,
    FlowBalance,
    UnclippedSurrogate,
    clipped_policy_loss,
    importance_ratio,
)
from new_samples import policy_tokens

LOW, HIGH = 0.2, 0.28


def loss_and_gradient(ratio, advantage, dtype=torch.float64):
    logprobs = torch.tensor([[math.log(ratio) - 1.0]], dtype=dtype, requires_grad=True)
    term = clipped_policy_loss(
        logprobs,
        torch.tensor([[-1.0]], dtype=dtype),
        torch.tensor([advantage]),
        clip_low=LOW,
        clip_high=HIGH,
    )
    (gradient,) = torch.autograd.grad(term.loss.sum(), logprobs)
    flags = (term.clipped_low.item(), term.clipped_high.item())
    return term.loss.item(), gradient.item(), flags


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient", "flags"),
    [
        # A > 0: a bound above, none below.
        (0.01, 2.0, -0.02, -0.02, (False, False)),
        (0.79, 2.0, -1.58, -1.58, (False, False)),
        (1.27, 2.0, -2.54, -2.54, (False, False)),
        (1.29, 2.0, -2.56, 0.0, (False, True)),
        (50.0, 2.0, -2.56, 0.0, (False, True)),
        # A < 0: a bound below, none above.
        (0.01, -2.0, 1.6, 0.0, (True, False)),
        (0.79, -2.0, 1.6, 0.0, (True, False)),
        (0.81, -2.0, 1.62, 1.62, (False, False)),
        (1.29, -2.0, 2.58, 2.58, (False, False)),
        (50.0, -2.0, 100.0, 100.0, (False, False)),
        # A = 0: nothing, and nothing is counted as clipped.
        (0.01, 0.0, 0.0, 0.0, (False, False)),
        (50.0, 0.0, 0.0, 0.0, (False, False)),
    ],
)
def test_the_loss_is_clipped_on_the_side_that_the_advantage_pushes_to(
    ratio, advantage, loss, gradient, flags
):
    actual = loss_and_gradient(ratio, advantage)
    assert actual[0] == pytest.approx(loss, rel=1e-7)
    assert actual[1] == pytest.approx(gradient, rel=1e-7)
    assert actual[2] == flags


def test_the_first_step_on_fresh_samples_has_the_plain_policy_gradient():
    logprobs = torch.tensor([[-0.5, -7.0], [-1.0, -2.0]], requires_grad=True)
    term = clipped_policy_loss(
        logprobs, logprobs.detach(), torch.tensor([1.5, -0.5]), clip_low=0.0, clip_high=0.0
    )
    term.loss.sum().backward()
    assert logprobs.grad.tolist() == [[-1.5, -1.5], [0.5, 0.5]]
    assert not (term.clipped_low | term.clipped_high).any()


def test_the_old_policy_gets_no_gradient_and_low_precision_is_subtracted_in_float32():
    old = torch.zeros(1, 1, requires_grad=True)
    new = torch.zeros(1, 1, requires_grad=True)
    importance_ratio(new, old).sum().backward()
    assert old.grad is None
    assert new.grad.item() == 1.0
    logprobs = torch.tensor([[-5.0]], dtype=torch.bfloat16)
    old = torch.tensor([[-5.015]])
    assert importance_ratio(logprobs, old).item() == pytest.approx(math.exp(0.015), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_ratio_goes_on_along_its_tangent_above_20_nats(dtype):
    logprobs = torch.tensor([19.0, 20.0, 21.0, 100.0, 1e29], dtype=dtype, requires_grad=True)
    ratio = importance_ratio(logprobs, torch.zeros_like(logprobs))
    (gradient,) = torch.autograd.grad(ratio.sum(), logprobs)
    top = math.exp(20)
    expected = [math.exp(19), top, 2 * top, 81 * top]
    assert ratio[:4].tolist() == pytest.approx(expected, rel=2e-6)
    assert torch.isfinite(ratio).all()
    slack = 2 * torch.finfo(dtype).eps + 2e-6
    assert gradient.tolist() == pytest.approx([math.exp(19), top, top, top, top], rel=slack)


@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("log_ratio", [-math.inf, -1e30, -104.0, 88.8, 104.0, 1e29])
def test_no_log_ratio_gives_a_non_finite_loss_or_gradient(log_ratio, advantage):
    logprobs = torch.tensor([[log_ratio]], requires_grad=True)
    term = clipped_policy_loss(
        logprobs, torch.zeros(1, 1), torch.tensor([advantage]), clip_low=LOW, clip_high=HIGH
    )
    (gradient,) = torch.autograd.grad(term.loss.sum(), logprobs)
    assert torch.isfinite(term.loss).all()
    assert torch.isfinite(gradient).all()
    assert abs(gradient.item()) <= math.exp(20) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"clip_low": -0.1, "clip_high": 0.2}, r"clip_low must lie in \[0, 1\], got -0.1"),
        ({"clip_low": 1.1, "clip_high": 0.2}, r"clip_low must lie in \[0, 1\], got 1.1"),
        ({"clip_low": 0.2, "clip_high": -0.1}, "clip_high must be at least 0, got -0.1"),
        ({"clip_low": 0.2, "clip_high": math.nan}, "clip_high must be at least 0, got nan"),
    ],
)
def test_a_bad_clip_bound_is_refused(bounds, message):
    loss = partial(clipped_policy_loss, torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1))
    for made in (loss, ClippedSurrogate, FlowBalance):
        with pytest.raises(SettingsError, match=message):
            made(**bounds)


def test_the_unclipped_loss_is_minus_ratio_times_advantage_everywhere():
    logprobs, old = [[-1.0, -2.0], [-3.0, -1.0]], [[-2.0, -2.0], [-1.0, -1.1]]
    tokens = policy_tokens(logprobs, [2.0, -1.0], old=old)
    term = UnclippedSurrogate()(tokens)
    ratio = (tokens.logprobs - tokens.old_logprobs).exp()
    torch.testing.assert_close(term.loss, -torch.tensor([[2.0], [-1.0]]).double() * ratio)
    assert not (term.clipped_low | term.clipped_high).any()
    fresh = policy_tokens(logprobs, [2.0, -1.0])  # where no bound is active
    torch.testing.assert_close(UnclippedSurrogate()(fresh).loss, ClippedSurrogate()(fresh).loss)
