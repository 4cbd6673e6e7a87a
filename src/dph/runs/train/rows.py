"""Rows of training, and the order of problems and stored samples."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path

from dph._base.randomness import generator
from dph.errors import PoolError
from dph.loss.objectives import Reduction
from dph.model.prompts import common_length
from dph.model.sampler.base import LEAST_SHARED, families
from dph.recipe.objective import AnchorSettings
from dph.records import Problem
from dph.runs.presample.tables import RehearsalSample


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A completion of the current policy. Log-probs are nats, one for each token of the completion.

    ``ref_logprobs`` exist only for objectives that need the initial policy. A ``masked`` row takes
    no part in the loss. In a trajectory ``written`` marks the tokens that the policy wrote, which
    have the log-probs.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    advantage: float
    old_logprobs: tuple[float, ...]
    ref_logprobs: tuple[float, ...] | None = None
    masked: bool = False
    written: tuple[bool, ...] | None = None


def length_of(row: PolicyRow | RehearsalSample) -> int:
    """Number of tokens that count: those that a policy wrote."""
    return len(row.completion_ids) if row.written is None else sum(row.written)


def require_lengths(
    samples: Sequence[RehearsalSample], *, reduction: Reduction, most: int, place: Path
) -> None:
    """Refuse stored answers that are longer than what ``fixed_length`` divides by."""
    if reduction != "fixed_length":
        return
    if (longest := max(map(length_of, samples), default=0)) > most:
        raise PoolError(
            f"{place} holds an answer of {longest} tokens, which objective.reduction = "
            f'"fixed_length" divides by {most}: raise the limit of new answers to {longest}, or '
            "choose another reduction"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRow:
    """A row and its weight in its mini-batch; ``source`` is that of ``LossBatch``."""

    row: PolicyRow | RehearsalSample
    weight: float
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Minibatch:
    """The groups of one optimizer step, and its stored samples by the name of their anchor."""

    groups: tuple[tuple[PolicyRow, ...], ...]
    stored: Mapping[str, tuple[RehearsalSample, ...]]


def split_minibatches(
    groups: Sequence[Sequence[PolicyRow]],
    stored: Mapping[str, Sequence[RehearsalSample]],
    minibatches: int,
) -> list[Minibatch]:
    """Deal out whole groups and stored samples, so that every mini-batch gets its share of both.

    There are at most as many mini-batches as groups, unless there are only stored samples.
    """
    parts = min(minibatches, len(groups)) if groups else minibatches
    return [
        Minibatch(
            groups=tuple(tuple(group) for group in groups[part::parts]),
            stored={name: _share(samples, part, parts) for name, samples in stored.items()},
        )
        for part in range(parts)
    ]


def _share(
    samples: Sequence[RehearsalSample], part: int, parts: int
) -> tuple[RehearsalSample, ...]:
    """Every so many prompts with their answers: a prompt that was drawn whole stays whole."""
    prompts = [tuple(of) for _, of in groupby(samples, key=lambda sample: sample.prompt_ids)]
    return tuple(chain.from_iterable(prompts[part::parts]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position of training in the shuffled problems."""

    epoch: int = 0
    offset: int = 0


def next_problems(
    problems: Sequence[Problem], count: int, position: Position, *, seed: int
) -> tuple[list[Problem], Position]:
    """The next ``count`` problems, all different, and the position after them.

    Every epoch has its own shuffle. A tail shorter than ``count`` is left out, so that no problem
    comes twice in one call.
    """
    if position.offset + count > len(problems):
        position = Position(epoch=position.epoch + 1)
    order = generator(seed, "problems", position.epoch).permutation(len(problems))
    after = Position(epoch=position.epoch, offset=position.offset + count)
    return [problems[i] for i in order[position.offset : after.offset]], after


def stored_of_step(
    samples: Sequence[RehearsalSample],
    anchor: AnchorSettings,
    step: int,
    *,
    seed: int,
    count: int = 0,
) -> list[RehearsalSample]:
    """The stored samples of a step, drawn anew every step: a function of the arguments.

    There are ``per_step`` of them, or ``count`` if the anchor names no number. With
    ``whole_prompts`` all answers to a prompt come together, with ``whole_schemas`` those whose
    prompts begin alike. They compute at most ``tokens_per_step`` (of prompts and answers, a shared
    beginning once), or are one sample.
    """
    count = anchor.per_step or count
    if anchor.whole_schemas:
        chosen = schemas_of_step(samples, count, step, seed=seed)
    elif anchor.whole_prompts:
        chosen = prompts_of_step(samples, count, step, seed=seed)
    else:
        chosen = rehearsal_of_step(samples, count, step, seed=seed)
    return chosen if anchor.tokens_per_step is None else _within(chosen, anchor.tokens_per_step)


def rehearsal_of_step(
    samples: Sequence[RehearsalSample], count: int, step: int, *, seed: int
) -> list[RehearsalSample]:
    """``count`` different stored samples, or all if there are fewer."""
    drawn = generator(seed, "rehearsal", step).permutation(len(samples))[:count]
    return [samples[i] for i in drawn]


def prompts_of_step(
    samples: Sequence[RehearsalSample], count: int, step: int, *, seed: int
) -> list[RehearsalSample]:
    """All stored answers of as many prompts as it takes to have ``count``.

    Their prompt is computed once, so that they cost less than answers to different prompts.
    """
    by_prompt: dict[tuple[int, ...], list[RehearsalSample]] = {}
    for sample in samples:
        by_prompt.setdefault(sample.prompt_ids, []).append(sample)
    groups = list(by_prompt.values())
    chosen: list[RehearsalSample] = []
    for place in generator(seed, "rehearsal", step).permutation(len(groups)):
        if len(chosen) >= count:
            break
        chosen += groups[place]
    return chosen


def schemas_of_step(
    samples: Sequence[RehearsalSample], count: int, step: int, *, seed: int
) -> list[RehearsalSample]:
    """``count`` stored samples from the fewest families of prompts that hold them.

    A family (see `families`) is reached by the first of its samples in a random order, so that
    every sample of a family of at least ``count`` is drawn as often as any other.
    """
    family_of = {
        prompt: number
        for number, family in enumerate(families(sample.prompt_ids for sample in samples))
        for prompt in family
    }
    order = rehearsal_of_step(samples, len(samples), step, seed=seed)
    met: dict[int, int] = {}
    for sample in order:
        met.setdefault(family_of[sample.prompt_ids], len(met))
    return sorted(order, key=lambda sample: met[family_of[sample.prompt_ids]])[:count]


def _within(samples: Sequence[RehearsalSample], most: int) -> list[RehearsalSample]:
    """The first samples that compute at most ``most`` tokens together; at least one.

    The first that does not fit ends it: to continue with shorter ones would draw those more often.
    """
    chosen: list[RehearsalSample] = []
    rows: list[tuple[int, ...]] = []
    used = 0
    for sample in samples:
        row = (*sample.prompt_ids, *sample.completion_ids)
        at = bisect(rows, row)
        near = rows[max(at - 1, 0) : at + 1]
        alike = max((common_length(row, other) for other in near), default=0)
        used += len(row) - (alike if alike >= LEAST_SHARED else 0)
        if chosen and used > most:
            break
        rows.insert(at, row)
        chosen.append(sample)
    return chosen
