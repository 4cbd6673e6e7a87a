"""Pre-sampling: ask the initial policy, verify, split, keep one correct answer each.

**Source**: arXiv:2509.07430, section 4. For every problem n samples decide the side of the split
and one more, the final sample, is what is kept for rehearsal if it is correct.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from transformers import PreTrainedModel

from dph.files.parts import TableParts
from dph.forward.scoring import score_completions
from dph.presampling.manifest import Counts, Manifest, Rule, Source
from dph.presampling.partition import histogram, partition
from dph.presampling.pool import RehearsalSample, write_pool
from dph.records import GradedCompletion, Outcome, Problem
from dph.rollout.base import SamplingParameters
from dph.rollout.graded import Rollout
from dph.rollout.graded_table import graded_rows, graded_table
from dph.settings import recipe_digest

logger = logging.getLogger(__name__)

_UNGRADED = {
    Outcome.BAD_GOLD: "the gold answer cannot be graded",
    Outcome.CRASHED: "the verifier crashed",
}
CHUNK = 64
"""Problems between two points at which a killed run can go on."""


class Draw(Protocol):
    """Samples and grades with the initial policy; ``GradedSampler`` on one device."""

    @property
    def parameters(self) -> SamplingParameters:
        """How completions are drawn."""
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


class Reference(Protocol):
    """Log-probs of completions under the initial policy, by the forward that training uses."""

    def __call__(
        self,
        prompts: Sequence[tuple[int, ...]],
        completions: Sequence[tuple[int, ...]],
        *,
        temperature: float,
    ) -> Sequence[tuple[float, ...]]:
        """Nats, one a token of every completion."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceForward:
    """The training forward of the initial policy on one device."""

    model: PreTrainedModel
    pad_id: int
    token_budget: int
    dtype: str

    def __call__(
        self,
        prompts: Sequence[tuple[int, ...]],
        completions: Sequence[tuple[int, ...]],
        *,
        temperature: float,
    ) -> Sequence[tuple[float, ...]]:
        """Nats, one a token of every completion."""
        return score_completions(
            self.model,
            prompts,
            completions,
            temperature=temperature,
            pad_id=self.pad_id,
            token_budget=self.token_budget,
            dtype=self.dtype,
        )


def presample(
    problems: Sequence[Problem],
    path: Path,
    *,
    draw: Draw,
    reference: Reference,
    source: Source,
    rule: Rule,
    chunk_size: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Write the pool of ``problems`` to ``path`` and return its manifest.

    Interrupted and started again with the same arguments it goes on after the last finished
    chunk and ends with the identical pool: every sample's random numbers depend on (seed,
    problem, sample index) alone, and chunks are cut the same way, by ``chunk_size`` problems
    [default: 64].

    ``on_progress`` is called with the number of samples finished since the last call.
    """
    size = chunk_size or CHUNK
    digest = recipe_digest(source, rule.model_dump(mode="json"), size)
    parts = TableParts(path.with_name(f"{path.name}.partial"), digest=digest)
    tables = []
    for index, start in enumerate(range(0, len(problems), size)):
        chunk = problems[start : start + size]
        table = parts.read(index)
        if table is None:
            rollout = draw(
                chunk, samples=source.samples + 1, seed=source.seed, on_progress=on_progress
            )
            table = graded_table(rollout.groups)
            parts.write(index, table)
        elif on_progress:
            on_progress(table.num_rows)
        tables.append(table)
    manifest = _write(problems, tables, path, draw, reference, source, rule)
    parts.remove()
    return manifest


def _write(
    problems: Sequence[Problem],
    pieces: Sequence[pa.Table],
    path: Path,
    draw: Draw,
    reference: Reference,
    source: Source,
    rule: Rule,
) -> Manifest:
    _warn_of_ungraded(pieces)
    n = source.samples
    correct, final_correct = _outcomes(problems, pieces, n)
    split = partition(
        correct, final_correct, threshold=rule.threshold, wrong_final=rule.wrong_final
    )
    final = _final_samples(pieces, n, split.rehearsal)
    by_id = {problem.problem_id: problem for problem in problems}
    chosen = [(by_id[i], final[i], correct[i]) for i in split.rehearsal]
    return write_pool(
        path,
        source=source,
        rule=rule,
        counts=Counts(
            problems=len(problems),
            exploration=len(split.exploration),
            rehearsal=len(split.rehearsal),
            discarded=len(split.discarded),
            histogram=histogram(list(correct.values()), n),
        ),
        exploration=[(by_id[i], correct[i]) for i in split.exploration],
        rehearsal=_rehearsal_samples(chosen, draw, reference),
        samples=pieces,
    )


def _warn_of_ungraded(pieces: Sequence[pa.Table]) -> None:
    """Tell of problems whose answers say nothing about the model."""
    for outcome, what in _UNGRADED.items():
        found = [piece.filter(pc.field("outcome") == outcome.value) for piece in pieces]
        ids = {i for piece in found for i in piece["problem_id"].to_pylist()}
        if ids:
            first = next(piece for piece in found if piece.num_rows).slice(0, 1).to_pylist()[0]
            logger.warning(
                "%d problem(s): %s, for example %r: %s",
                len(ids),
                what,
                first["problem_id"],
                first["reason"],
            )


def _outcomes(
    problems: Sequence[Problem], pieces: Sequence[pa.Table], n: int
) -> tuple[dict[str, int], dict[str, bool]]:
    """How many of the first ``n`` samples are correct, and whether the final one is."""
    correct = {problem.problem_id: 0 for problem in problems}
    final: dict[str, bool] = {}
    for piece in pieces:
        columns = (piece[name].to_pylist() for name in ("problem_id", "sample_index", "outcome"))
        for problem_id, index, outcome in zip(*columns, strict=True):
            right = outcome == Outcome.CORRECT
            if index == n:
                final[problem_id] = right
            else:
                correct[problem_id] += right
    return correct, final


def _final_samples(
    pieces: Sequence[pa.Table], n: int, problem_ids: Sequence[str]
) -> dict[str, GradedCompletion]:
    wanted = pc.field("problem_id").isin(pa.array(problem_ids, pa.string()))
    chosen = wanted & (pc.field("sample_index") == n)
    return {
        graded.completion.problem_id: graded
        for piece in pieces
        for graded in graded_rows(piece.filter(chosen))
    }


def _rehearsal_samples(
    chosen: Sequence[tuple[Problem, GradedCompletion, int]],
    draw: Draw,
    reference: Reference,
) -> list[RehearsalSample]:
    prompts = [draw.encode(problem) for problem, _, _ in chosen]
    completions = [graded.completion.token_ids for _, graded, _ in chosen]
    scores = reference(prompts, completions, temperature=draw.parameters.temperature)
    return [
        RehearsalSample(
            problem_id=problem.problem_id,
            sample_index=graded.completion.sample_index,
            prompt_ids=prompt,
            completion_ids=graded.completion.token_ids,
            ref_logprobs=logprobs,
            correct=correct,
        )
        for (problem, graded, correct), prompt, logprobs in zip(
            chosen, prompts, scores, strict=True
        )
    ]
