"""Flow balance: a squared residual of whole answers instead of a policy gradient."""

from dataclasses import dataclass

from torch import Tensor

from dph.loss.divergences.elementwise import at_least_float32
from dph.loss.objectives.policy import check_bounds
from dph.loss.objectives.terms import PolicyTerm, PolicyTokens


@dataclass(frozen=True, slots=True)
class FlowBalance:
    """Squared distance of an answer's likelihood from the value that its advantage asks for.

    Equation: w (l / |y| - A)^2 with l = log pi(y) - log pi_old(y) of the whole answer and
    w = clip(pi(y) / pi_old(y), 1 - clip_low, 1 + clip_high) without gradient. With the advantage
    ``FlowRL`` it is that paper's loss (arXiv:2509.15207): l / |y| - A is its residual delta.
    Every token of an answer has the answer's value, so that ``sequence_mean`` is the paper's mean
    over answers.
    Limits: at pi = pi_old the gradient is -2 A grad log pi(y) / |y|. An answer with A = 0 is held
    where it is. The bounds limit the weight and cut no gradient.
    Overflow: quadratic in l / |y|; the weight is at most 1 + clip_high.
    Differs from the authors' code: it computes the bounded weight and multiplies with the unbounded
    one. verl's recipe of it bounds the weight at 10, or that of the mean log-ratio a token.

    Raises:
        SettingsError: ``clip_low`` outside [0, 1], or ``clip_high`` below 0.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2

    def __post_init__(self) -> None:
        check_bounds(self.clip_low, self.clip_high)

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token, and where a bound holds the weight."""
        change = at_least_float32(tokens.logprobs) - at_least_float32(tokens.old_logprobs).detach()
        moved = change.sum(-1)  # both are 0 outside the mask
        ratio = moved.detach().exp()
        weight = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        delta = moved / tokens.mask.sum(-1).clamp(min=1) - tokens.advantages.to(moved.dtype)
        return PolicyTerm(
            loss=_on_tokens(weight * delta.square(), tokens),
            clipped_low=_on_tokens(ratio < 1 - self.clip_low, tokens),
            clipped_high=_on_tokens(ratio > 1 + self.clip_high, tokens),
        )


def _on_tokens(of_rows: Tensor, tokens: PolicyTokens) -> Tensor:
    return of_rows[:, None].expand_as(tokens.mask)
