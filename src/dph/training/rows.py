"""What a training step is made of: one row a completion."""

from collections.abc import Sequence
from dataclasses import dataclass

from dph.presampling.pool import RehearsalSample


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A completion of the current policy. Log-probs are nats, one a token of the completion.

    ``ref_logprobs`` are there only for objectives that need the initial policy. A ``masked``
    row takes no part in the loss.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    advantage: float
    old_logprobs: tuple[float, ...]
    ref_logprobs: tuple[float, ...] | None = None
    masked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRow:
    """A row of either kind and its weight in the mini-batch it belongs to."""

    row: PolicyRow | RehearsalSample
    weight: float

    @property
    def is_rehearsal(self) -> bool:
        """Whether the row is a stored answer of the initial policy."""
        return isinstance(self.row, RehearsalSample)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minibatch:
    """The groups and stored samples of one optimizer step."""

    groups: tuple[tuple[PolicyRow, ...], ...]
    rehearsal: tuple[RehearsalSample, ...]


def split_minibatches(
    groups: Sequence[Sequence[PolicyRow]],
    rehearsal: Sequence[RehearsalSample],
    minibatches: int,
) -> list[Minibatch]:
    """Deal whole groups and stored samples out, so that every mini-batch gets its share of both.

    With fewer groups than mini-batches, there are as many mini-batches as groups.
    """
    parts = min(minibatches, len(groups))
    return [
        Minibatch(
            groups=tuple(tuple(group) for group in groups[part::parts]),
            rehearsal=tuple(rehearsal[part::parts]),
        )
        for part in range(parts)
    ]
