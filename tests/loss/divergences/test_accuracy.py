"""Value and gradient against 60-digit arithmetic; the bounds the docstrings quote.

Errors are relative, in units of the eps of the dtype (1.2e-7 for float32, 2.2e-16 for
float64). Run this file as a script to print the largest ones.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import mpmath
import pytest
import torch

from dph.loss.divergences import Alpha, ForwardKL, JensenShannon, ReverseKL
from dph.loss.divergences.f_divergences import policy_half, reference_half


def _log_share(u):
    return mpmath.log(2 * u / (1 + u))


@dataclass(frozen=True)
class Case:
    """A function of log-ratios, its textbook form in u, its derivative, and error bounds."""

    function: Callable
    value: Callable
    derivative: Callable  # with respect to x = log u
    value_bound: int
    gradient_bound: int
    per_nat: int = 0  # both bounds rise with |x|


def alpha_case(a):
    exact = mpmath.mpf(a)
    with mpmath.workdps(60):
        b = 1 - exact

    def value(u):
        return (u**b - b * u - exact) / (exact * (exact - 1))

    return Case(Alpha(a), value, lambda u: (u - u**b) / exact, 4, 4, per_nat=1)


CASES = {
    "forward_kl nll": Case(
        ForwardKL("nll"), lambda u: -mpmath.log(u), lambda _: -mpmath.mpf(1), 0, 0
    ),
    "forward_kl k3": Case(ForwardKL("k3"), lambda u: u - 1 - mpmath.log(u), lambda u: u - 1, 2, 2),
    "jensen_shannon": Case(
        JensenShannon(),
        lambda u: u * mpmath.log(u) - (u + 1) * mpmath.log((u + 1) / 2),
        lambda u: u * _log_share(u),
        4,
        3,
    ),
    "reverse_kl": Case(
        ReverseKL(), lambda u: u * mpmath.log(u) - u + 1, lambda u: u * mpmath.log(u), 3, 2
    ),
    "reference_half k3": Case(
        partial(reference_half, form="k3"),
        lambda u: (u - 1) / 2 - mpmath.log((1 + u) / 2),
        lambda u: u * (u - 1) / (2 * (u + 1)),
        4,
        3,
    ),
    "reference_half nll": Case(
        partial(reference_half, form="nll"),
        lambda u: -mpmath.log((1 + u) / 2),
        lambda u: -u / (1 + u),
        2,
        2,
    ),
    "policy_half": Case(
        lambda x: policy_half(x, torch.ones_like(x)), _log_share, lambda u: 1 / (1 + u), 2, 2
    ),
    **{f"alpha {a}": alpha_case(a) for a in (1e-6, 0.1, 0.3, 0.5, 0.9, 1 - 1e-6)},
}


def log_ratios(dtype):
    """Both signs, 1e-15 ... 80, and both sides of the radius where formulas change."""
    size = torch.logspace(-15, math.log10(80), 150, dtype=torch.float64)
    size = torch.cat([size, torch.tensor([0.999, 1.0, 1.001, 80.0], dtype=torch.float64)])
    size = size.clamp(max=80.0)
    return torch.cat([-size, size]).to(dtype)


def worst_errors(case, dtype):
    """Largest (error - bound) and largest error, of value and gradient, in eps."""
    x = log_ratios(dtype).requires_grad_()
    values = case.function(x)
    (gradients,) = torch.autograd.grad(values.sum(), x)
    excess, largest = [-mpmath.inf, -mpmath.inf], [0.0, 0.0]
    with mpmath.workdps(60):
        for row in zip(x.tolist(), values.tolist(), gradients.tolist(), strict=True):
            u = mpmath.exp(mpmath.mpf(row[0]))
            exact = (case.value(u), case.derivative(u))
            slack = case.per_nat * abs(row[0])
            bounds = (case.value_bound + slack, case.gradient_bound + slack)
            for i in range(2):
                error = float(abs(row[1 + i] / exact[i] - 1)) / torch.finfo(dtype).eps
                excess[i] = max(excess[i], error - bounds[i])
                largest[i] = max(largest[i], error)
    return excess, largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_value_and_gradient_are_within_the_documented_bound(case, dtype):
    excess, _ = worst_errors(case, dtype)
    assert max(excess) <= 1e-9


if __name__ == "__main__":
    for name, case in CASES.items():
        for dtype in (torch.float32, torch.float64):
            _, (value, gradient) = worst_errors(case, dtype)
            print(f"{name:20s} {str(dtype)[6:]:8s} value {value:5.1f}  gradient {gradient:5.1f}")  # noqa: T201
