"""Pre-sampling: ask the initial policy, verify, split, keep one correct answer of each problem.

**Source**: arXiv:2509.07430, section 4. For every problem n samples decide the side of the split
and one more, the final sample, is kept for rehearsal if it is correct.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dph._base.files.parts import Earlier, TableParts
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import EpisodeSampler
from dph.model.sampler.graded import Rollout
from dph.recipe.section import WrongFinal
from dph.records import UNGRADED, GradedCompletion, Outcome, Problem
from dph.runs.presample.manifest import FORMAT, Manifest, Rule, Source, ValueSource, require_whole
from dph.runs.presample.pool import read_pieces, write_pool
from dph.runs.presample.tables import (
    GRADED,
    TRAJECTORIES,
    RehearsalSample,
    Ungradable,
    graded_rows,
    graded_table,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Partition:
    """Problem ids by side; every problem is on exactly one."""

    exploration: tuple[str, ...]
    rehearsal: tuple[str, ...]
    discarded: tuple[str, ...]
    ungradable: tuple[str, ...]


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
    discarded, or explored with the rest (``wrong_final``). An ``ungradable`` problem is on no other
    side, however often it was solved. The order is that of ``correct``.

    **Source**: arXiv:2509.07430, section 4 (pre-sampling stage).

    >>> partition({"a": 8, "b": 3, "c": 7, "d": 0}, {"a": True, "b": True, "c": False, "d": False},
    ...           threshold=7, wrong_final="discard", ungradable={"d"})
    Partition(exploration=('b',), rehearsal=('a',), discarded=('c',), ungradable=('d',))
    """
    side_of: dict[str, str] = {}
    for problem_id, count in correct.items():
        if problem_id in ungradable:
            side_of[problem_id] = "ungradable"
        elif count < threshold:
            side_of[problem_id] = "explore"
        else:
            side_of[problem_id] = "rehearse" if final_correct[problem_id] else wrong_final
    names = ("explore", "rehearse", "discard", "ungradable")
    return Partition(*(tuple(i for i, side in side_of.items() if side == name) for name in names))


def histogram(correct: Sequence[int], samples: int) -> tuple[int, ...]:
    """Number of problems that were solved 0, 1, ... ``samples`` times.

    >>> histogram([0, 2, 2], samples=2)
    (1, 0, 2)
    """
    counts = Counter(correct)
    return tuple(counts[count] for count in range(samples + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """The verdicts on n samples and a final one of every problem.

    ``correct`` counts the first n samples, ``outcomes`` counts all of them.
    """

    correct: Mapping[str, int]
    final_correct: Mapping[str, bool]
    ungradable: tuple[Ungradable, ...]
    outcomes: Mapping[str, int]


def read_grades(problems: Sequence[Problem], pieces: Sequence[pa.Table], n: int) -> Grades:
    """Count the verdicts in ``pieces``, tables of graded samples."""
    by_problem: dict[str, Counter[str]] = {p.problem_id: Counter() for p in problems}
    correct = dict.fromkeys(by_problem, 0)
    final = dict.fromkeys(by_problem, False)
    reasons: dict[tuple[str, str], str] = {}  # of a problem's first sample with this outcome
    names = ("problem_id", "sample_index", "outcome", "reason")
    for piece in pieces:
        columns = (piece[name].to_pylist() for name in names)
        for problem_id, index, outcome, reason in zip(*columns, strict=True):
            by_problem[problem_id][outcome] += 1
            if outcome in UNGRADED:
                reasons.setdefault((problem_id, outcome), reason)
            if index == n:
                final[problem_id] = outcome == Outcome.CORRECT
            else:
                correct[problem_id] += outcome == Outcome.CORRECT
    whys = {i: why for i, found in by_problem.items() if (why := ungradable_outcome(found))}
    outcomes = sum(by_problem.values(), Counter())
    return Grades(
        correct=correct,
        final_correct=final,
        ungradable=tuple(
            Ungradable(problem_id=i, outcome=why, reason=reasons[i, why]) for i, why in whys.items()
        ),
        outcomes={outcome.value: outcomes[outcome] for outcome in Outcome if outcomes[outcome]},
    )


def ungradable_outcome(outcomes: Mapping[str, int]) -> Outcome | None:
    """Why a problem with these outcomes cannot be graded; None if it can.

    One BAD_GOLD is enough: it is about the problem, and answers without a statement or a number
    never come as far as the gold answer. A crash may be the fault of the one answer that was
    graded, so a problem counts as ungradable only if each of its graded samples crashed; samples
    that were cut off are not graded.

    >>> ungradable_outcome({"WRONG": 7, "BAD_GOLD": 2})
    <Outcome.BAD_GOLD: 'BAD_GOLD'>
    >>> ungradable_outcome({"CRASHED": 8, "CUT_OFF": 1})
    <Outcome.CRASHED: 'CRASHED'>
    >>> ungradable_outcome({"CRASHED": 8, "WRONG": 1})
    """
    if outcomes.get(Outcome.BAD_GOLD):
        return Outcome.BAD_GOLD
    crashed = outcomes.get(Outcome.CRASHED, 0)
    graded = sum(outcomes.values()) - outcomes.get(Outcome.CUT_OFF, 0)
    return Outcome.CRASHED if crashed and crashed == graded else None


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

    The files are those that pre-sampling with ``rule`` would have written. The old pool stays
    until the new one is whole.
    """
    require_whole(path, found)
    pieces = read_pieces(path)
    return split(
        problems, pieces, path, scored=scored, source=found.source, grading=found.values, rule=rule
    )


def _warn_of(ungradable: Sequence[Ungradable]) -> None:
    for outcome, what in _WHY.items():
        if found := [problem for problem in ungradable if problem.outcome == outcome]:
            logger.warning(
                "%d problem(s) left out: %s, for example %r: %s",
                *(len(found), what, found[0].problem_id, found[0].reason),
            )


def _kept_samples(
    pieces: Sequence[pa.Table], n: int, problem_ids: Sequence[str], keep: int
) -> dict[str, list[GradedCompletion]]:
    """At most ``keep`` correct samples of each problem: the final one, then those before it.

    Given the number of correct samples among the n, these are independent draws of the policy's
    correct answers, as the final one is: deciding their problem's side does not select among them.
    """
    wanted = pc.field("problem_id").isin(pa.array(problem_ids, pa.string()))
    chosen = wanted & (pc.field("outcome") == Outcome.CORRECT.value)
    found: dict[str, list[GradedCompletion]] = {}
    for piece in pieces:
        for graded in graded_rows(piece.filter(chosen)):
            found.setdefault(graded.completion.problem_id, []).append(graded)
    for some in found.values():
        some.sort(key=lambda one: (one.completion.sample_index != n, one.completion.sample_index))
    return {i: some[:keep] for i, some in found.items()}


def _rehearsal_samples(
    chosen: Sequence[tuple[Problem, GradedCompletion, int]], scored: StoredForm
) -> list[RehearsalSample]:
    prompts = [graded.completion.prompt_ids or scored.encode(p) for p, graded, _ in chosen]
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
            ref_logprobs=score,
            correct=correct,
            written=graded.completion.written,
        )
        for (problem, graded, correct), prompt, score in zip(chosen, prompts, scores, strict=True)
    ]


CHUNK = 64
"""Problems between two points from which a killed run can continue."""


class Draw(Protocol):
    """Samples and grades with the initial policy, ``GradedSampler`` or ``EpisodeSampler``."""

    @property
    def parameters(self) -> SamplingParameters: ...

    @property
    def encode(self) -> Callable[[Problem], tuple[int, ...]]: ...

    def __call__(
        self,
        problems: Sequence[Problem],
        *,
        samples: int,
        seed: int,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rollout: ...


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

    If it is interrupted and started again with the same arguments, it continues after the last
    finished chunk and ends with the identical pool: every sample's random numbers depend only on
    (seed, problem, sample index), and chunks are always cut the same way, by ``chunk_size``
    problems [default: 64]. The samples do not depend on ``rule``, which may differ then.

    ``on_progress`` is called with the number of samples finished since the last call.
    """
    size, answers = chunk_size or CHUNK, source.answers + 1
    schema = TRAJECTORIES if isinstance(draw, EpisodeSampler) else GRADED
    # The model's directory makes no difference to the answers; its fingerprint is in the source.
    drawn_from = source.model_dump(mode="json", exclude={"model"})
    parts = TableParts(
        path.with_name(f"{path.name}.partial"),
        job={**drawn_from, **grading.model_dump(mode="json"), "format": FORMAT, "chunk": size},
        earlier=Earlier.REQUIRED_SAME,
    )

    def drawn(chunk: Sequence[Problem]) -> pa.Table:
        found = draw(chunk, samples=answers, seed=source.seed, on_progress=on_progress)
        return graded_table(found.groups)

    report = on_progress or (lambda _: None)
    chunks = [problems[start : start + size] for start in range(0, len(problems), size)]
    pieces = [
        table.cast(schema).combine_chunks()
        for table in parts.tables(chunks, drawn, found=lambda some, _: report(len(some) * answers))
    ]
    scored = StoredForm(
        encode=draw.encode, reference=reference, temperature=draw.parameters.temperature
    )
    manifest = split(
        problems, pieces, path, scored=scored, source=source, grading=grading, rule=rule
    )
    parts.remove()
    return manifest
