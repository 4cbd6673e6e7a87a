"""The terms of a loss put together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.divergences import Divergence, PolicyHalf
from dph.loss.objectives.advantages.graded import attribute_of, reads_of
from dph.loss.objectives.advantages.group import GroupAdvantage
from dph.loss.objectives.surrogates import ClippedSurrogate
from dph.loss.objectives.terms import AnyAdvantage, Penalty, Surrogate, VocabularyPenalty

# From token values to one number, in a way that cutting into micro-batches cannot change.
#
# A weight is fixed for every row of a whole optimizer mini-batch at once. Rows carry it into
# whichever micro-batch they land in, so the micro-batch losses simply add up (no division by
# their number) and so do their gradients.

Reduction = Literal["token_mean", "sequence_mean", "fixed_length"]


def row_weights(
    lengths: Int[Tensor, "rows"], *, reduction: Reduction, max_tokens: int | None = None
) -> Float[Tensor, "rows"]:
    """Weights w_i such that sum_i w_i sum_t value_it is the reduction (float32).

    Equation: token_mean: 1 / total tokens (DAPO). sequence_mean: 1 / (rows * length_i)
    (GRPO). fixed_length: 1 / (rows * max_tokens) (Dr. GRPO, arXiv:2503.20783).
    Rows without tokens get weight 0 and do not count as rows: padding a batch with them
    changes nothing. An empty set of rows has no weights.

    Call it once for the policy rows and once for the rehearsal rows: each term has its own
    denominator.

    Args:
        lengths: Tokens of each row of the mini-batch that its term uses.
        reduction: What to compute.
        max_tokens: The length limit of sampling; used, and needed, by fixed_length only.

    Raises:
        SettingsError: the reduction is unknown, or fixed_length without ``max_tokens`` >= 1.
        DataError: a length is negative, or above ``max_tokens`` under fixed_length.

    >>> row_weights(torch.tensor([1, 3, 0]), reduction="sequence_mean").tolist()
    [0.5, 0.1666666716337204, 0.0]
    """
    if reduction not in get_args(Reduction):
        raise SettingsError(
            f"reduction must be one of {', '.join(get_args(Reduction))}, got {reduction!r}"
        )
    if lengths.numel() and int(lengths.min()) < 0:
        raise DataError(f"a row's length must be at least 0, got {int(lengths.min())}")
    used = lengths > 0
    if reduction == "token_mean":
        divisors = lengths.sum().expand_as(lengths)
    elif reduction == "sequence_mean":
        divisors = used.sum() * lengths
    else:
        divisors = (used.sum() * _limit(lengths, max_tokens)).expand_as(lengths)
    # The clamp is for rows without tokens only, which the mask then sets to 0.
    return used / divisors.clamp(min=1).float()


def _limit(lengths: Int[Tensor, "rows"], max_tokens: int | None) -> int:
    """Return ``max_tokens`` after checking that it bounds every row."""
    if max_tokens is None or max_tokens < 1:
        raise SettingsError(f"reduction 'fixed_length' needs max_tokens >= 1, got {max_tokens}")
    if lengths.numel() and int(lengths.max()) > max_tokens:
        raise DataError(f"a row has {int(lengths.max())} tokens, above {max_tokens=}")
    return max_tokens


def weighted_sum(
    values: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    weights: Float[Tensor, "rows"],
) -> Float[Tensor, ""]:
    """Return sum_i w_i sum_t value_it over the tokens in ``mask``; 0 when there are none.

    ``values`` outside the mask, NaN included, reach neither the sum nor the gradient with respect
    to ``values``. (They do reach the gradient of the inputs of ``values`` unless those were masked
    too: 0 * inf is NaN.)
    """
    return (torch.where(mask, values, 0.0).sum(-1) * weights.to(values.dtype)).sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedPenalty:
    """A penalty on new samples and its weight in the loss."""

    penalty: Penalty | VocabularyPenalty
    weight: float

    def __post_init__(self) -> None:
        _check_weight("a penalty", self.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A divergence on stored samples and its weight (eta) in the loss."""

    divergence: Divergence
    weight: float

    def __post_init__(self) -> None:
        _check_weight("an anchor", self.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """total = surrogate + sum of weight * penalty + sum of weight * anchor.

    The order of ``anchors`` numbers their rows (``LossBatch.source``).
    """

    advantage: AnyAdvantage = field(default_factory=GroupAdvantage)
    surrogate: Surrogate = field(default_factory=ClippedSurrogate)
    penalties: Mapping[str, WeightedPenalty] = field(default_factory=dict)
    anchors: Mapping[str, Anchor] = field(default_factory=dict)
    reduction: Reduction = "token_mean"

    @property
    def needs_all_samples(self) -> bool:
        """True if a new sample with advantage 0 can still have a gradient.

        A user-defined surrogate may give such a sample one.
        """
        return (
            not isinstance(self.surrogate, ClippedSurrogate)
            or any(term.weight > 0 for term in self.penalties.values())
            or any(
                term.weight > 0 and isinstance(term.divergence, PolicyHalf)
                for term in self.anchors.values()
            )
        )

    @property
    def vocabulary_penalties(self) -> dict[str, VocabularyPenalty]:
        """The penalties that see whole next-token distributions of new samples."""
        found = {name: term.penalty for name, term in self.penalties.items()}
        return {n: term for n, term in found.items() if isinstance(term, VocabularyPenalty)}

    @property
    def token_penalties(self) -> dict[str, Penalty]:
        """The other penalties, which see log-probs of the sampled tokens."""
        found = {name: term.penalty for name, term in self.penalties.items()}
        return {n: t for n, t in found.items() if not isinstance(t, VocabularyPenalty)}

    @property
    def reads_reference_tables(self) -> bool:
        """True if a penalty compares with the initial policy's whole distributions."""
        return any(_reads_reference(term) for term in self.vocabulary_penalties.values())

    @property
    def reads_reference_logprobs(self) -> bool:
        """True if a term needs the initial policy's log-probs of the sampled tokens."""
        divergences = [term.divergence for term in self.anchors.values()]
        acting = any(isinstance(divergence, PolicyHalf) for divergence in divergences)
        terms = (self.surrogate, *self.token_penalties.values(), *divergences)
        advantage = "ref_logprobs" in reads_of(self.advantage)
        return acting or advantage or any(_reads_reference(term) for term in terms)


def _reads_reference(term: object) -> bool:
    return bool(attribute_of(term, "reads_reference", False))


def _check_weight(what: str, weight: float) -> None:
    if not 0 <= weight < float("inf"):
        raise SettingsError(f"the weight of {what} must be finite and at least 0, got {weight}")


def needs_whole_step(objective: Objective) -> dict[str, str]:
    """Terms that need more than log-probs of sampled tokens: places in ``[objective]``, and needs.

    An engine that has only those log-probs must refuse them.
    """
    return {
        f"penalties.{name}": "needs whole next-token distributions"
        for name in objective.vocabulary_penalties
    }
