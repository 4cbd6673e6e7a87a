"""Laws that every generator obeys."""

import math
from dataclasses import FrozenInstanceError

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.divergences import (
    DIVERGENCES,
    LOG_RATIO_BOUND,
    Alpha,
    Divergence,
    ForwardKL,
    JensenShannon,
    ReverseKL,
    make_divergence,
)
from dph.loss.divergences.base import categorical_kl
from dph.loss.divergences.f_divergences import reference_half

NLL = ForwardKL("nll")
GENERATORS = [ForwardKL(), NLL, JensenShannon(), Alpha(0.1), Alpha(0.9), ReverseKL()]
every_generator = pytest.mark.parametrize("divergence", GENERATORS, ids=repr)
every_bounded_generator = pytest.mark.parametrize(
    "divergence", [d for d in GENERATORS if d != NLL], ids=repr
)
RETURNED = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}


def value_and_gradient(divergence, log_ratios, dtype=torch.float64):
    x = torch.tensor(log_ratios, dtype=dtype, requires_grad=True)
    values = divergence(x)
    (gradient,) = torch.autograd.grad(values.sum(), x)
    return values.detach(), gradient


@every_generator
def test_is_zero_where_the_policies_agree_and_pulls_there_only_as_nll(divergence):
    values, gradient = value_and_gradient(divergence, [0.0])
    assert values.item() == 0.0
    assert gradient.item() == (-1.0 if divergence == NLL else 0.0)


@every_generator
def test_is_convex_in_u(divergence):
    u = torch.linspace(0.02, 6.0, 600, dtype=torch.float64)
    assert (divergence(u.log()).diff(n=2) > 0).all()


@every_bounded_generator
def test_is_positive_and_pushes_towards_agreement(divergence):
    values, gradient = value_and_gradient(divergence, [-30.0, -1.0, -1e-3, 1e-3, 1.0, 30.0])
    assert (values > 0).all()
    assert gradient.sign().tolist() == [-1, -1, -1, 1, 1, 1]


@every_generator
@pytest.mark.parametrize("dtype", RETURNED, ids=str)
def test_nan_comes_out_only_where_it_went_in(divergence, dtype):
    extremes = [-math.inf, -6e4, -1e3, -104.0, -88.8, 88.8, 104.0, 1e3, 6e4, math.inf]
    values, gradient = value_and_gradient(divergence, extremes, dtype)
    assert not values.isnan().any()
    assert not gradient.isnan().any()
    values, _ = value_and_gradient(divergence, [math.nan, 0.5], dtype)
    assert values.isnan().tolist() == [True, False]


@every_bounded_generator
def test_goes_on_along_its_tangent_above_the_bound(divergence):
    assert LOG_RATIO_BOUND == 80.0
    values, gradient = value_and_gradient(divergence, [80.0, 80.5, 90.0, math.inf])
    assert gradient.tolist() == [gradient[0].item()] * 4
    assert values[1].item() == pytest.approx((values[0] + 0.5 * gradient[0]).item(), rel=1e-14)
    assert values[2].item() == pytest.approx((values[0] + 10 * gradient[0]).item(), rel=1e-14)
    assert values[3].item() == math.inf
    assert gradient[0].item() > 1e34
    values, gradient = value_and_gradient(divergence, [155.0, 1e30], torch.float32)
    assert torch.isfinite(values[0])
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("divergence", "value", "pull"),
    [
        (ForwardKL(), math.inf, -1.0),
        (ForwardKL("nll"), math.inf, -1.0),
        (JensenShannon(), math.log(2), 0.0),
        (Alpha(0.2), 1 / 0.8, 0.0),
        (ReverseKL(), 1.0, 0.0),
    ],
    ids=repr,
)
def test_a_lost_token_costs_the_limit_of_the_docstring(divergence, value, pull):
    values, gradient = value_and_gradient(divergence, [-math.inf, -1e4])
    assert values[0].item() == pytest.approx(value, rel=1e-15)
    assert gradient.tolist() == [pull, pull]  # nothing is clamped on this side
    assert values[1].item() == pytest.approx(min(value, 1e4), rel=1e-3)


def test_the_pull_of_jensen_shannon_peaks_at_0_232_near_u_0_302():
    u = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    _, gradient = value_and_gradient(JensenShannon(), u.log().tolist())
    assert u[gradient.argmin()].item() == pytest.approx(0.302)
    assert gradient.min().item() == pytest.approx(-0.232, abs=5e-4)


@every_generator
@pytest.mark.parametrize("given", RETURNED, ids=str)
def test_low_precision_comes_back_as_float32_and_its_gradient_in_its_own_dtype(divergence, given):
    values, gradient = value_and_gradient(divergence, [[0.25, -0.5]], given)
    assert values.dtype == RETURNED[given]
    assert gradient.dtype == given
    exact, exact_gradient = value_and_gradient(divergence, [[0.25, -0.5]])
    torch.testing.assert_close(values.double(), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        gradient.double(), exact_gradient, rtol=2 * torch.finfo(given).eps + 1e-12, atol=0
    )


@every_generator
def test_the_gradient_can_be_differentiated_again(divergence):
    x = torch.tensor([-30.0, -1.5, -0.4, 0.3, 1.2, 4.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(divergence, x)
    assert torch.autograd.gradgradcheck(divergence, x)


@pytest.mark.parametrize("a", [1e-9, 1 - 1e-9])
def test_alpha_meets_both_kl_divergences_at_its_ends(a):
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    limit = ReverseKL() if a < 0.5 else ForwardKL()
    torch.testing.assert_close(Alpha(a)(x), limit(x), rtol=1e-7, atol=0)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_every_name_builds_a_frozen_divergence_of_that_name(name):
    divergence = make_divergence(name)
    assert isinstance(divergence, Divergence)
    assert divergence.name == name
    assert divergence == make_divergence(name)
    with pytest.raises((FrozenInstanceError, TypeError)):
        divergence.form = "nll"
    assert make_divergence("alpha", alpha=0.2) == Alpha(0.2)


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make_divergence("foward_kl"), "did you mean 'forward_kl'"),
        (lambda: make_divergence("xyz"), "unknown divergence 'xyz': choose one of forward_kl"),
        (lambda: make_divergence("alpha", beta=1), "no parameter 'beta'; it takes: alpha"),
        (lambda: make_divergence("reverse_kl", alpha=1), "it takes: none"),
        (lambda: make_divergence("alpha", alpha=1.5), "between 0 and 1, got 1.5"),
        (lambda: Alpha(0), "between 0 and 1, got 0"),
        (lambda: Alpha(1.0), "between 0 and 1, got 1.0"),
        (lambda: Alpha(math.nan), "between 0 and 1, got nan"),
        (lambda: make_divergence("alpha", alpha="0.5"), "between 0 and 1, got '0.5'"),
        (lambda: make_divergence("forward_kl", form="k1"), "'k3' or 'nll', got 'k1'"),
        (lambda: reference_half(torch.zeros(1), form="k2"), "'k3' or 'nll', got 'k2'"),
    ],
)
def test_a_bad_setting_is_refused_by_name_and_value(build, message):
    with pytest.raises(SettingsError, match=message):
        build()


def by_hand(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


P, Q = [0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]


def logs(values):
    return torch.tensor(values, dtype=torch.float64).log()


def test_the_value_is_the_sum_written_out_in_its_direction_and_without_bound():
    assert float(categorical_kl(logs(P), logs(Q))) == pytest.approx(by_hand(P, Q), rel=1e-12)
    assert float(categorical_kl(logs(Q), logs(P))) == pytest.approx(by_hand(Q, P), rel=1e-12)
    assert by_hand(P, Q) != pytest.approx(by_hand(Q, P), rel=1e-2)
    assert categorical_kl(logs(P), logs([1.0, 0.0, 0.0, 0.0])) == math.inf


def test_outcomes_without_probability_add_nothing_and_give_finite_gradients():
    p = logs([0.5, 0.5, 0.0, 0.0])
    logits = torch.tensor([0.3, -0.2, 1.0, -math.inf], dtype=torch.float64, requires_grad=True)
    value = categorical_kl(p, logits.log_softmax(-1))
    assert value.isfinite()
    value.backward()
    q = logits.detach().softmax(-1)
    torch.testing.assert_close(logits.grad, q - p.exp())
    other = torch.tensor([0.3, -0.2, 1.0, -math.inf], dtype=torch.float64, requires_grad=True)
    categorical_kl(other.log_softmax(-1), logs(Q)).backward()
    assert other.grad.isfinite().all()


def test_gradients_of_both_arguments_are_those_of_finite_differences():
    torch.manual_seed(0)
    logits = [torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def of(a, b):
        return categorical_kl(a.log_softmax(-1), b.log_softmax(-1))

    assert torch.autograd.gradcheck(of, logits)
