"""Pre-sampling: ask the initial policy, verify, split, keep one correct answer of each problem.

**Source**: arXiv:2509.07430, section 4. For every problem n samples decide the side of the split
and one more, the final sample, is what is kept for rehearsal if it is correct.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import EpisodeSampler
from dph.model.sampler.graded import Rollout
from dph.model.sampler.graded_table import GRADED, TRAJECTORIES, graded_table
from dph.records import Problem
from dph.runs.presample.making import drawn_chunks, parts_of
from dph.runs.presample.manifest import Manifest, Rule, Source, ValueSource
from dph.runs.presample.splitting import Reference, StoredForm, split

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
