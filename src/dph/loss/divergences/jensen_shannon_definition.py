"""Jensen-Shannon divergence by its definition: each half on its own samples.

With M = (pi + pi_ref) / 2 at every prefix and x = log pi - log pi_ref,

    2 JS = KL(pi_ref || M) + KL(pi || M)      (arXiv:2509.07430, Appendix E)

The first half is an expectation over stored tokens, the second over tokens of the policy,
whose reference log-probs then need a reference model. The sum of the two has the scale of
``JensenShannon``. Log-ratios are not bounded here: nothing but the k3 form of the first half
grows faster than |x|, and that form is continued as the family is.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dph.errors import SettingsError
from dph.loss.divergences.elementwise import apply_generator, with_derivative
from dph.loss.divergences.forward_kl import exp_remainder
from dph.loss.divergences.jensen_shannon import log_share

_LOWEST = -1e4  # nats; a policy token below it has importance ratio 0, and 0 * -inf is NaN


def reference_half(
    log_ratio: Float[Tensor, "*shape"], *, form: Literal["k3", "nll"] = "k3"
) -> Float[Tensor, "*shape"]:
    """Per-token estimate of KL(pi_ref || M) on stored tokens, y ~ pi_ref.

    Equation: with z = log(M / pi_ref) = log((1 + u) / 2): k3: exp(z) - 1 - z; nll: -z.
    Computed as: z = -log(2 sigmoid(-x)), then the stable k3; for x > 1 its exponential is
    taken from x, since rounding z would be amplified. Gradient: k3:
    sigmoid(x) expm1(x) / 2; nll: -sigmoid(x).
    Units: nats a token.
    Limits: x -> -inf: k3 -> log 2 - 1/2, nll -> log 2; the pull of both fades as u.
    Accuracy: for |x| <= 80: k3 value within 4, k3 gradient within 3, nll both within 2 units
    of eps (relative).

    Raises:
        SettingsError: ``form`` is neither "k3" nor "nll".
    """
    if form == "k3":
        return apply_generator(
            log_ratio,
            _reference_k3,
            lambda x: torch.sigmoid(x) * torch.expm1(x) / 2,
        )
    if form == "nll":
        return with_derivative(log_ratio, lambda x: log_share(-x), lambda x: -torch.sigmoid(x))
    raise SettingsError(f"reference_half: form must be 'k3' or 'nll', got {form!r}")


def _reference_k3(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    z = -log_share(-x)
    return torch.where(x > 1.0, torch.expm1(x) / 2 - z, exp_remainder(z))


def policy_half(
    log_ratio: Float[Tensor, "*shape"], ratio: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Per-token estimate of KL(pi || M) on tokens drawn from a sampling policy pi_old.

    Equation: r log(2 sigmoid(x)) - (r - 1) / 2, r = pi / pi_old.
    The last part has mean 0 and changes neither the expected value nor the expected gradient;
    it makes the gradient of a single token, (log(2 sigmoid(x)) - tanh(x / 2) / 2) grad log pi
    at r = 1, vanish where pi = pi_ref instead of being noise there.
    Units: nats a token.
    Limits: x -> -inf: falls as x; x -> +inf: log 2 r. Below x = -1e4 the logarithm stays.
    Overflow: none for finite ``ratio``.
    Differs from the paper: its code takes the k3 form of this half as a direct loss, whose
    gradient is another one.

    Args:
        log_ratio: log pi - log pi_ref, with gradient.
        ratio: pi / pi_old **with its gradient**: ``exp(logprobs - logprobs.detach())`` on the
            samples of the policy itself, ``exp(logprobs - old_logprobs)`` otherwise. A
            detached ratio gives the wrong gradient: samples of pi move with pi.
    """
    share = with_derivative(
        log_ratio, lambda x: log_share(x.clamp(min=_LOWEST)), lambda x: torch.sigmoid(-x)
    )
    return ratio * share - (ratio - 1) / 2


@dataclass(frozen=True, slots=True)
class JensenShannonDefinition:
    """Both halves as a term of the loss: k3 of ``reference_half``, and ``policy_half``.

    Called on stored tokens it is the first half; ``on_policy`` is the second. Each is reduced over
    its own rows, so the halves balance whatever the numbers of rows.
    """

    name: ClassVar[str] = "jensen_shannon_definition"
    reads_reference: ClassVar[bool] = True

    def __call__(self, log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The half on stored tokens, in nats."""
        return reference_half(log_ratio)

    def on_policy(
        self, log_ratio: Float[Tensor, "*shape"], ratio: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """The half on tokens of the policy, in nats."""
        return policy_half(log_ratio, ratio)
