"""Terms of the loss: their inputs and their results.

A term is anything that can be called like one of these protocols: a frozen dataclass of the
package, or a user-defined function or class, named in a recipe by ``module:callable``. It may have
attributes: ``reads_reference = True`` if a surrogate or a penalty needs the initial policy's
log-probs of new samples; on a divergence, ``on_policy`` (see ``PolicyHalf``), which always gets
them; on an advantage, ``reads`` (see ``ReadingAdvantage``) and ``least_samples``, the size of the
smallest group that it can judge.

A penalty with ``over_vocabulary`` is called differently: with whole next-token distributions, block
by block.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

READS = frozenset({"logprobs", "ref_logprobs"})
"""Names of the inputs of an advantage other than rewards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTokens:
    """New samples, the input of terms. Log-probs are nats, of completion tokens.

    Rows of other kinds and padding are False in ``mask``, and 0 in everything else.
    ``logprobs`` carry the gradient; ``ref_logprobs`` are meaningless unless a term asked for them
    (``reads_reference``).
    """

    logprobs: Float[Tensor, "rows tokens"]
    old_logprobs: Float[Tensor, "rows tokens"]
    ref_logprobs: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]
    advantages: Float[Tensor, "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerm:
    """Loss of every token, and the tokens whose gradient or weight a bound limits."""

    loss: Float[Tensor, "rows tokens"]
    clipped_low: Bool[Tensor, "rows tokens"]
    clipped_high: Bool[Tensor, "rows tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSamples:
    """Inputs of an advantage in addition to the rewards; None if it did not ask for them.

    ``logprobs`` are sums over a sample's tokens, nats, under the policy that drew it; ``lengths``
    are those tokens, at least 1 (both for ``reads`` with "logprobs"). ``ref_logprobs`` are the
    initial policy's sums ("ref_logprobs").
    """

    logprobs: Float[Tensor, "groups samples"] | None = None
    lengths: Int[Tensor, "groups samples"] | None = None
    ref_logprobs: Float[Tensor, "groups samples"] | None = None

    def has(self, name: str) -> bool:
        """True if the inputs that ``name`` stands for in ``reads`` are given."""
        found = {"logprobs": (self.logprobs, self.lengths), "ref_logprobs": (self.ref_logprobs,)}
        return all(value is not None for value in found[name])

    def of(
        self, groups: Bool[Tensor, "groups"], samples: Bool[Tensor, "groups samples"]
    ) -> "GroupSamples":
        """Inputs of some groups, equally many of each; ``samples`` is False in other groups."""

        def chosen(values: Tensor | None) -> Tensor | None:
            return None if values is None else values[samples].view(int(groups.sum()), -1)

        return GroupSamples(
            logprobs=chosen(self.logprobs),
            lengths=chosen(self.lengths),
            ref_logprobs=chosen(self.ref_logprobs),
        )


@runtime_checkable
class Advantage(Protocol):
    """From rewards to advantages, group by group."""

    def __call__(self, rewards: Float[Tensor, "groups samples"]) -> Float[Tensor, "groups samples"]:
        """Advantages of the same shape; a group without signal gets exactly 0."""
        ...


@runtime_checkable
class ReadingAdvantage(Protocol):
    """From rewards and further inputs, named in ``reads``, to advantages."""

    @property
    def reads(self) -> frozenset[str]:
        """Names of its inputs; an engine that lacks some of them refuses the term by name."""
        ...

    def __call__(
        self, rewards: Float[Tensor, "groups samples"], samples: GroupSamples
    ) -> Float[Tensor, "groups samples"]:
        """Advantages of the same shape."""
        ...


AnyAdvantage = Advantage | ReadingAdvantage


@runtime_checkable
class Surrogate(Protocol):
    """The term to minimise on new samples."""

    def __call__(self, tokens: PolicyTokens) -> PolicyTerm:
        """The loss of every token; its gradient through ``logprobs`` is the policy's."""
        ...


@runtime_checkable
class Penalty(Protocol):
    """A weighted addition on new samples."""

    def __call__(self, tokens: PolicyTokens) -> Float[Tensor, "rows tokens"]:
        """The value of every token."""
        ...


@runtime_checkable
class VocabularyPenalty(Protocol):
    """A weighted addition on new samples that sees whole distributions."""

    def over_vocabulary(
        self,
        logprobs: Float[Tensor, "positions vocabulary"],
        ref_logprobs: Float[Tensor, "positions vocabulary"] | None,
        /,
    ) -> Float[Tensor, "positions"]:
        """The value at each position of a block, from log-probs (nats) of the vocabulary there.

        ``ref_logprobs`` are those of the initial policy if the penalty has
        ``reads_reference = True``, otherwise None. A block is computed again for the gradient: the
        same block must give the same values.
        """
        ...
