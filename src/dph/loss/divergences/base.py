"""The one convention that all divergences share.

Let pi be the policy being trained and pi_ref the frozen initial policy. For a stored token
y_t, sampled from **pi_ref**, write

    x = log pi(y_t | prefix) - log pi_ref(y_t | prefix)      (nats; ``log_ratio``)
    u = exp(x)
    D_f(pi || pi_ref) = E_{y ~ pi_ref}[ f(u) ],    f convex, f(1) = 0, f'(1) = 0 or -1

so the mean of ``divergence(log_ratio)`` over stored tokens estimates the divergence, and the
gradient that reaches log pi is df/dx = u f'(u).

All generators also share:

* **dtype.** float32 and float64 come back as they are; bfloat16 and float16 are computed and
  returned in float32 (their gradient is cast back to the input's dtype).
* **Upper side.** Exact for x <= 80. Above, every generator goes on along its tangent at 80:
  f(80) + (x - 80) df/dx(80), with the gradient df/dx(80). It is finite and pulls the same way,
  at one and the same place for every dtype. Only the *value* may then leave the float32 range
  (for x beyond 155 at the earliest); it becomes +inf, as it does at x = +inf.
* **Lower side.** Never clamped: there the forgetting is worst, and the pull must stay.
* **NaN** comes out only where NaN went in. Mask padding before the call.
* The gradient is itself differentiable (it is a formula, not a constant).
"""

from typing import ClassVar, Final, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

LOG_RATIO_BOUND: Final = 80.0
"""Nats. Above it generators are continued by their tangent; exp(80) = 5.5e34 fits float32."""


@runtime_checkable
class Divergence(Protocol):
    """An f-divergence in log space, one token at a time."""

    name: ClassVar[str]

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return f(exp(log_ratio)) elementwise, in nats."""
        ...


@runtime_checkable
class PolicyHalf(Protocol):
    """Part of a divergence that also acts on the policy's own samples."""

    def on_policy(
        self, log_ratio: Float[Tensor, "*shape"], ratio: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Its value on tokens of the policy; ``ratio`` is pi / pi_old with its gradient."""
        ...
