"""What a term of the loss is: what it is given, and what it returns.

A term is anything that can be called like one of these protocols: a frozen dataclass of the
package, or a function or class of one's own, named in a recipe by ``module:callable``. Two
attributes may stand on it: ``reads_reference = True`` where a surrogate or a penalty needs the
initial policy's log-probs of new samples, and, on a divergence, ``on_policy`` (see
``PolicyHalf``), which is given them in any case.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTokens:
    """New samples, as terms see them. Log-probs are nats, of completion tokens.

    Rows of other kinds and padding are False in ``mask``, and 0 in everything else.
    ``logprobs`` carry the gradient; ``ref_logprobs`` mean nothing where no term asked for them
    (``reads_reference``).
    """

    logprobs: Float[Tensor, "rows tokens"]
    old_logprobs: Float[Tensor, "rows tokens"]
    ref_logprobs: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]
    advantages: Float[Tensor, "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerm:
    """Loss of every token, and which tokens have their gradient cut by which bound."""

    loss: Float[Tensor, "rows tokens"]
    clipped_low: Bool[Tensor, "rows tokens"]
    clipped_high: Bool[Tensor, "rows tokens"]


@runtime_checkable
class Advantage(Protocol):
    """From rewards to advantages, group by group."""

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """Advantages of the same shape; a group whose rewards tell nothing gets exactly 0."""
        ...


@runtime_checkable
class Surrogate(Protocol):
    """What is minimised on new samples."""

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token; its gradient through ``logprobs`` is the policy's."""
        ...


@runtime_checkable
class Penalty(Protocol):
    """What is added on new samples, times its weight."""

    def __call__(self, tokens: PolicyTokens) -> Float[Tensor, "rows tokens"]:
        """The value of every token."""
        ...
