"""Rows of a training step: one a completion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dph.runs.presample.tables import DistributionSample, RehearsalSample

StoredRow = RehearsalSample | DistributionSample
"""What an anchor rehearses: the log-probs of an answer, or distributions along it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A completion of the current policy. Log-probs are nats, one for each token of the completion.

    ``ref_logprobs`` are there only for objectives that need the initial policy. A ``masked``
    row takes no part in the loss. Of a trajectory, ``written`` says which tokens the policy wrote;
    log-probs are of those.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    advantage: float
    old_logprobs: tuple[float, ...]
    ref_logprobs: tuple[float, ...] | None = None
    masked: bool = False
    written: tuple[bool, ...] | None = None


def written_of(row: PolicyRow | StoredRow) -> tuple[bool, ...] | None:
    """Flags of the tokens that count; None where all of them do."""
    return None if isinstance(row, DistributionSample) else row.written


def length_of(row: PolicyRow | StoredRow) -> int:
    """Number of tokens that count: those that a policy wrote."""
    written = written_of(row)
    return len(row.completion_ids) if written is None else sum(written)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRow:
    """A row of any kind and its weight in the mini-batch it belongs to.

    ``source`` is as in ``LossBatch``: ``POLICY``, or 1 and more for the rows of the anchors.
    """

    row: PolicyRow | StoredRow
    weight: float
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Minibatch:
    """The groups of one optimizer step, and the stored samples of every anchor by its name."""

    groups: tuple[tuple[PolicyRow, ...], ...]
    stored: Mapping[str, tuple[StoredRow, ...]]


def split_minibatches(
    groups: Sequence[Sequence[PolicyRow]],
    stored: Mapping[str, Sequence[StoredRow]],
    minibatches: int,
) -> list[Minibatch]:
    """Deal whole groups and stored samples out, so that every mini-batch gets its share of all.

    With fewer groups than mini-batches, there are as many mini-batches as groups; without any
    group, stored samples are dealt out alone.
    """
    parts = min(minibatches, len(groups)) if groups else minibatches
    return [
        Minibatch(
            groups=tuple(tuple(group) for group in groups[part::parts]),
            stored={name: tuple(samples[part::parts]) for name, samples in stored.items()},
        )
        for part in range(parts)
    ]
