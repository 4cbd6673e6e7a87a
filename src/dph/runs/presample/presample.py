"""Pre-sampling: ask the initial policy, verify, split, keep one correct answer of each problem.

**Source**: arXiv:2509.07430, section 4. For every problem n samples decide the side of the split
and one more, the final sample, is what is kept for rehearsal if it is correct.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import EpisodeSampler
from dph.model.sampler.graded import Rollout
from dph.recipe.section import WrongFinal
from dph.records import GradedCompletion, Outcome, Problem
from dph.runs.presample.diagnosis import Ungradable, read_grades
from dph.runs.presample.making import drawn_chunks, parts_of, read_pieces
from dph.runs.presample.manifest import Manifest, Rule, Source, ValueSource, require_whole
from dph.runs.presample.pool import SAMPLES, write_pool
from dph.runs.presample.tables import (
    GRADED,
    TRAJECTORIES,
    RehearsalSample,
    graded_rows,
    graded_table,
)

# From graded samples to a pool: the split, the stored answers, and both for another rule.
#
# The split depends on the samples and the rule alone, so a finished pool can be split with another
# rule without drawing anything: the final sample of every problem is among its samples.


# Splitting the problems by what the initial policy already masters.


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Problem ids by side; every problem is on exactly one."""

    exploration: tuple[str, ...]
    rehearsal: tuple[str, ...]
    discarded: tuple[str, ...]
    ungradable: tuple[str, ...] = ()


def partition(
    correct: Mapping[str, int],
    final_correct: Mapping[str, bool],
    *,
    threshold: int,
    wrong_final: WrongFinal,
    ungradable: Collection[str] = (),
) -> Partition:
    """Split problems into those to explore, to rehearse, to discard, and those without a verdict.

    A problem solved at least ``threshold`` times is near-perfect and is rehearsed if its final,
    extra sample is correct too. If that one is wrong there is nothing to rehearse: the problem is
    discarded, or explored with the rest (``wrong_final``). An ``ungradable`` problem is on the
    side of that name however often it was solved. Order is that of ``correct``.

    **Source**: arXiv:2509.07430, section 4 (pre-sampling stage).

    >>> partition({"a": 8, "b": 3, "c": 7, "d": 0}, {"a": True, "b": True, "c": False, "d": False},
    ...           threshold=7, wrong_final="discard", ungradable={"d"})
    Partition(exploration=('b',), rehearsal=('a',), discarded=('c',), ungradable=('d',))
    """
    sides: dict[str, list[str]] = {"explore": [], "rehearse": [], "discard": [], "ungradable": []}
    for problem_id, count in correct.items():
        if problem_id in ungradable:
            side = "ungradable"
        elif count < threshold:
            side = "explore"
        elif final_correct[problem_id]:
            side = "rehearse"
        else:
            side = wrong_final
        sides[side].append(problem_id)
    return Partition(
        exploration=tuple(sides["explore"]),
        rehearsal=tuple(sides["rehearse"]),
        discarded=tuple(sides["discard"]),
        ungradable=tuple(sides["ungradable"]),
    )


def histogram(correct: Sequence[int], samples: int) -> tuple[int, ...]:
    """Number of problems that were solved 0, 1, ... ``samples`` times.

    >>> histogram([0, 2, 2], samples=2)
    (1, 0, 2)
    """
    counts = [0] * (samples + 1)
    for count in correct:
        counts[count] += 1
    return tuple(counts)


logger = logging.getLogger(__name__)

_WHY = {
    Outcome.BAD_GOLD: "the gold answer cannot be graded",
    Outcome.CRASHED: "the verifier crashed on every sample",
}


Reference = Callable[..., Sequence[tuple[float, ...]]]
"""Log-probs (nats) under the initial policy, by the forward that training uses.

It takes prompts and completions as tokens, ``temperature``, and of trajectories ``written``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredForm:
    """Conversion of a stored answer to tokens and log-probs."""

    encode: Callable[[Problem], tuple[int, ...]]
    reference: Reference
    temperature: float


def split(
    problems: Sequence[Problem],
    pieces: Sequence[pa.Table],
    path: Path,
    *,
    scored: StoredForm,
    source: Source,
    grading: ValueSource,
    rule: Rule,
) -> Manifest:
    """Write the pool of ``pieces``, the graded samples of ``problems`` in their order."""
    n = source.answers
    grades = read_grades(problems, pieces, n)
    _warn_of(grades.ungradable)
    ungradable = {problem.problem_id for problem in grades.ungradable}
    sides = partition(
        grades.correct,
        grades.final_correct,
        threshold=rule.threshold,
        wrong_final=rule.wrong_final,
        ungradable=ungradable,
    )
    kept = _kept_samples(pieces, n, sides.rehearsal, rule.keep)
    by_id = {problem.problem_id: problem for problem in problems}
    chosen = [(by_id[i], one, grades.correct[i]) for i in sides.rehearsal for one in kept[i]]
    gradable = [count for i, count in grades.correct.items() if i not in ungradable]
    return write_pool(
        path,
        source=source,
        grading=grading,
        rule=rule,
        counts={
            "prompts": len(problems),
            "exploration": len(sides.exploration),
            "rehearsal": len(chosen),
            "discarded": len(sides.discarded),
            "ungradable": len(sides.ungradable),
            "histogram": histogram(gradable, n),
            "outcomes": dict(grades.outcomes),
        },
        exploration=[(by_id[i], grades.correct[i]) for i in sides.exploration],
        rehearsal=_rehearsal_samples(chosen, scored),
        ungradable=grades.ungradable,
        samples=pieces,
    )


def split_again(
    problems: Sequence[Problem], path: Path, found: Manifest, *, scored: StoredForm, rule: Rule
) -> Manifest:
    """Replace the finished pool ``path`` by one of the same samples, split by ``rule``.

    The files are those that pre-sampling with ``rule`` would have written. The old pool is there
    until the new one is whole.
    """
    require_whole(path, found)
    pieces = read_pieces(path / SAMPLES)
    return split(
        problems, pieces, path, scored=scored, source=found.source, grading=found.values, rule=rule
    )


def _warn_of(ungradable: Sequence[Ungradable]) -> None:
    """Tell of problems whose answers say nothing about the model, with an example of each kind."""
    for outcome, what in _WHY.items():
        found = [problem for problem in ungradable if problem.outcome == outcome]
        if found:
            logger.warning(
                "%d problem(s) left out: %s, for example %r: %s",
                len(found),
                what,
                found[0].problem_id,
                found[0].reason,
            )


def _kept_samples(
    pieces: Sequence[pa.Table], n: int, problem_ids: Sequence[str], keep: int
) -> dict[str, list[GradedCompletion]]:
    """At most ``keep`` correct samples of each problem: the final one, then those before it.

    Given how many of the n are correct, those are independent draws of the policy's correct
    answers, as the final one is: that they decided about their problem says nothing about which
    correct answers they are.
    """
    wanted = pc.field("problem_id").isin(pa.array(problem_ids, pa.string()))
    chosen = wanted & (pc.field("outcome") == Outcome.CORRECT.value)
    found: dict[str, list[GradedCompletion]] = {}
    for piece in pieces:
        for graded in graded_rows(piece.filter(chosen)):
            found.setdefault(graded.completion.problem_id, []).append(graded)

    def final_first(graded: GradedCompletion) -> tuple[bool, int]:
        return graded.completion.sample_index != n, graded.completion.sample_index

    return {i: sorted(some, key=final_first)[:keep] for i, some in found.items()}


def _rehearsal_samples(
    chosen: Sequence[tuple[Problem, GradedCompletion, int]], scored: StoredForm
) -> list[RehearsalSample]:
    prompts = [
        graded.completion.prompt_ids or scored.encode(problem) for problem, graded, _ in chosen
    ]
    completions = [graded.completion.token_ids for _, graded, _ in chosen]
    written = [graded.completion.written for _, graded, _ in chosen]
    acting = {} if all(row is None for row in written) else {"written": written}
    scores = scored.reference(prompts, completions, temperature=scored.temperature, **acting)
    return [
        RehearsalSample(
            problem_id=problem.problem_id,
            sample_index=graded.completion.sample_index,
            prompt_ids=prompt,
            completion_ids=graded.completion.token_ids,
            ref_logprobs=logprobs,
            correct=correct,
            written=graded.completion.written,
        )
        for (problem, graded, correct), prompt, logprobs in zip(
            chosen, prompts, scores, strict=True
        )
    ]


CHUNK = 64
"""Problems between two points at which a killed run can go on."""


class Draw(Protocol):
    """Samples and grades with the initial policy, ``GradedSampler`` or ``EpisodeSampler``."""

    @property
    def parameters(self) -> SamplingParameters:
        """Parameters for drawing completions."""
        ...

    @property
    def encode(self) -> Callable[[Problem], tuple[int, ...]]:
        """The prompt's tokens."""
        ...

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Draw and grade ``samples`` completions of every problem."""
        ...


def presample(
    problems: Sequence[Problem],
    path: Path,
    *,
    draw: Draw,
    reference: Reference,
    source: Source,
    grading: ValueSource,
    rule: Rule,
    chunk_size: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Write the pool of ``problems`` to ``path`` and return its manifest.

    Interrupted and started again with the same arguments it goes on after the last finished
    chunk and ends with the identical pool: every sample's random numbers depend on (seed,
    problem, sample index) alone, and chunks are cut the same way, by ``chunk_size`` problems
    [default: 64]. The samples do not depend on ``rule``, so it may be another one then.

    ``on_progress`` is called with the number of samples finished since the last call.
    """
    size = chunk_size or CHUNK
    answers = source.answers + 1
    parts = parts_of(path, source, grading, size=size)

    def drawn(chunk: Sequence[Problem]) -> pa.Table:
        found = draw(chunk, samples=answers, seed=source.seed, on_progress=on_progress)
        return graded_table(found.groups)

    tables = drawn_chunks(
        problems,
        drawn,
        parts,
        schema=TRAJECTORIES if isinstance(draw, EpisodeSampler) else GRADED,
        size=size,
        answers=answers,
        on_progress=on_progress,
    )
    scored = StoredForm(
        encode=draw.encode, reference=reference, temperature=draw.parameters.temperature
    )
    manifest = split(
        problems, tables, path, scored=scored, source=source, grading=grading, rule=rule
    )
    parts.remove()
    return manifest
