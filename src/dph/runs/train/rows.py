"""Rows of training, and the order of problems and stored samples."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dph._base.randomness import generator
from dph.model.sampler.base import LEAST_SHARED, common_length, families
from dph.recipe.objective import AnchorSettings
from dph.records import Problem
from dph.runs.presample.tables import RehearsalSample


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


def written_of(row: PolicyRow | RehearsalSample) -> tuple[bool, ...] | None:
    """Flags of the tokens that count; None where all of them do."""
    return row.written


def length_of(row: PolicyRow | RehearsalSample) -> int:
    """Number of tokens that count: those that a policy wrote."""
    written = written_of(row)
    return len(row.completion_ids) if written is None else sum(written)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRow:
    """A row of any kind and its weight in the mini-batch it belongs to.

    ``source`` is as in ``LossBatch``: ``POLICY``, or 1 and more for the rows of the anchors.
    """

    row: PolicyRow | RehearsalSample
    weight: float
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Minibatch:
    """The groups of one optimizer step, and the stored samples of every anchor by its name."""

    groups: tuple[tuple[PolicyRow, ...], ...]
    stored: Mapping[str, tuple[RehearsalSample, ...]]


def split_minibatches(
    groups: Sequence[Sequence[PolicyRow]],
    stored: Mapping[str, Sequence[RehearsalSample]],
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position of training in the shuffled problems."""

    epoch: int = 0
    offset: int = 0


def next_problems(
    problems: Sequence[Problem], count: int, position: Position, *, seed: int
) -> tuple[list[Problem], Position]:
    """The next ``count`` problems, all different, and the position after them.

    Every epoch has its own shuffle. An epoch's tail that is shorter than ``count`` is left out,
    so that no problem comes twice in one call.
    """
    if position.offset + count > len(problems):
        position = Position(epoch=position.epoch + 1)
    order = generator(seed, "problems", position.epoch).permutation(len(problems))
    chosen = order[position.offset : position.offset + count]
    after = Position(epoch=position.epoch, offset=position.offset + count)
    return [problems[i] for i in chosen], after


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Choice of the stored samples of a step.

    ``count`` of them; with ``whole_prompts`` all answers of a prompt together, with
    ``whole_schemas`` those whose prompts begin alike together. They compute at most ``tokens``
    (prompts and answers, what they begin with alike once), or are one sample.
    """

    count: int
    whole_prompts: bool = False
    whole_schemas: bool = False
    tokens: int | None = None


def drawing_of(anchor: AnchorSettings, count: int) -> Drawing:
    """As the settings of an anchor say; ``count`` where it names none."""
    return Drawing(
        count=anchor.per_step or count,
        whole_prompts=anchor.whole_prompts,
        whole_schemas=anchor.whole_schemas,
        tokens=anchor.tokens_per_step,
    )


def stored_of_step(
    samples: Sequence[RehearsalSample], drawing: Drawing, step: int, *, seed: int
) -> list[RehearsalSample]:
    """The stored samples of a step: a function of the arguments, drawn anew every step."""
    if drawing.whole_schemas:
        chosen = schemas_of_step(samples, drawing.count, step, seed=seed)
    elif drawing.whole_prompts:
        chosen = prompts_of_step(samples, drawing.count, step, seed=seed)
    else:
        chosen = rehearsal_of_step(samples, drawing.count, step, seed=seed)
    return chosen if drawing.tokens is None else _within(chosen, drawing.tokens)


def rehearsal_of_step(
    samples: Sequence[RehearsalSample], count: int, step: int, *, seed: int
) -> list[RehearsalSample]:
    """``count`` different stored samples (all, if there are fewer), drawn anew every step."""
    drawn = generator(seed, "rehearsal", step).permutation(len(samples))[:count]
    return [samples[i] for i in drawn]


def prompts_of_step(
    samples: Sequence[RehearsalSample], count: int, step: int, *, seed: int
) -> list[RehearsalSample]:
    """All stored answers of as many prompts as it takes to have ``count``, drawn anew every step.

    What a prompt's answers begin with is computed once, so that they cost less than as many
    answers of different prompts.
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
    """``count`` stored samples from the fewest families of prompts that hold them, anew every step.

    A family (see `families`) is reached by the first of its samples in a random order, so that
    every sample of a family of at least ``count`` is drawn as often as any other.
    """
    family_of = {
        prompt: number
        for number, family in enumerate(families(sample.prompt_ids for sample in samples))
        for prompt in family
    }
    drawn = generator(seed, "rehearsal", step).permutation(len(samples))
    order = [samples[place] for place in drawn]
    met: dict[int, int] = {}
    for sample in order:
        met.setdefault(family_of[sample.prompt_ids], len(met))
    return sorted(order, key=lambda sample: met[family_of[sample.prompt_ids]])[:count]


def _within(samples: Sequence[RehearsalSample], most: int) -> list[RehearsalSample]:
    """The first samples that compute at most ``most`` tokens together; at least one.

    It stops at the first that does not fit: to go on with shorter ones would draw those more often.
    """
    chosen: list[RehearsalSample] = []
    rows: list[tuple[int, ...]] = []
    used = 0
    for sample in samples:
        row = (*sample.prompt_ids, *sample.completion_ids)
        at = bisect(rows, row)
        alike = max(
            (common_length(row, other) for other in rows[max(at - 1, 0) : at + 1]), default=0
        )
        used += len(row) - (alike if alike >= LEAST_SHARED else 0)
        if chosen and used > most:
            break
        rows.insert(at, row)
        chosen.append(sample)
    return chosen
