"""Advantages of groups in which some samples could not be graded."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dph.errors import DataError, SettingsError
from dph.loss.objectives.terms import READS, AnyAdvantage, GroupSamples


def reads_of(advantage: AnyAdvantage) -> frozenset[str]:
    """The names in the attribute ``reads``; none if there is no such attribute.

    Raises:
        SettingsError: a name that is not one of ``READS``.
    """
    found = frozenset(attribute_of(advantage, "reads", ()))
    if unknown := sorted(found - READS):
        raise SettingsError(
            f"{advantage!r} reads {unknown[0]!r}; an advantage may read {', '.join(sorted(READS))}"
        )
    return found


def least_samples_of(advantage: AnyAdvantage) -> int:
    """The smallest group that it can judge: ``least_samples``, or 1."""
    return int(attribute_of(advantage, "least_samples", 1))


def attribute_of(term: object, name: str, default: Any) -> Any:
    """An attribute of a term; a user-defined function may be bound to its parameters."""
    return getattr(getattr(term, "func", term), name, default)


def graded_advantages(
    advantage: AnyAdvantage,
    rewards: Float[Tensor, "groups samples"],
    graded: Bool[Tensor, "groups samples"],
    samples: GroupSamples | None = None,
) -> Float[Tensor, "groups samples"]:
    """Advantages of groups in which some samples could not be graded.

    ``advantage`` sees only the graded samples, all groups with equally many of them in one call.
    The others get 0, whatever their ``rewards`` and ``samples``. A group that has fewer graded
    samples than ``advantage.least_samples`` gets 0.

    Args:
        advantage: the term.
        rewards: of all samples.
        graded: which samples have a meaningful reward.
        samples: inputs of an advantage with ``reads`` other than the rewards.

    Raises:
        DataError: groups are smaller than the advantage needs even if all is graded, an input that
            it reads is missing, or it returned another shape than its input's or values that are
            not finite.

    >>> from dph.loss.objectives import GroupAdvantage
    >>> rewards = torch.tensor([[1.0, 0.0, 0.0]])
    >>> graded = torch.tensor([[True, True, False]])
    >>> graded_advantages(GroupAdvantage("none"), rewards, graded)
    tensor([[ 0.5000, -0.5000,  0.0000]])
    """
    least = least_samples_of(advantage)
    if 0 < rewards.shape[-1] < least:
        raise DataError(
            f"{advantage!r} needs groups of at least {least} samples, got {rewards.shape[-1]}"
        )
    reads = reads_of(advantage)
    if missing := sorted(name for name in reads if samples is None or not samples.has(name)):
        raise DataError(f"{advantage!r} reads {missing[0]!r} of the samples, which is not given")
    advantages = torch.zeros_like(rewards)
    counts = graded.sum(-1)
    for count in sorted(set(counts.tolist()) - set(range(least)) - {0}):
        groups = counts == count
        chosen = graded & groups[:, None]
        given = rewards[chosen].view(-1, count)
        more = [samples.of(groups, chosen)] if reads and samples is not None else []
        found = advantage(given, *more)
        _require_advantages(found, given, advantage)
        advantages[chosen] = found.to(advantages.dtype).flatten()
    return advantages


def _require_advantages(found: Tensor, given: Tensor, advantage: AnyAdvantage) -> None:
    if found.shape != given.shape or not torch.isfinite(found).all():
        raise DataError(
            f"an advantage must be finite and of the rewards' shape {tuple(given.shape)}; "
            f"{advantage!r} returned shape {tuple(found.shape)} with "
            f"{int((~torch.isfinite(found)).sum())} values that are not"
        )
