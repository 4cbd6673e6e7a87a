"""The policy's own correct answers of the last steps, to be rehearsed in the next ones.

DyJR (arXiv:2603.16157) holds the policy to a reference that moves with it: a first-in-first-out
buffer of recent correct answers, and a Jensen-Shannon divergence to the policies that drew them.
Written from the paper's abstract (a buffer in the order of time whose size adapts, so that it holds
only what was drawn lately; a divergence in the place of policy gradients on what is replayed).
Neither code nor equations were available, so this is our reading:

- what enters is every answer with the outcome CORRECT of the groups that a step learnt from, with
  the log-probs that the update took for the old policy's (the sampler's, for rows that moved
  nothing); groups without a wrong answer count too;
- what leaves is what is older than ``recent`` steps, and what is older than the newest
  ``recent_capacity`` answers; so the size adapts to how many answers were correct;
- a step rehearses what earlier steps left, so the first rehearses nothing;
- the divergence is the anchor's, here in the form for stored tokens with u = pi / pi_then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dph.errors import CheckpointError
from dph.recipe.objective import AnchorSettings
from dph.records import Outcome
from dph.runs.presample.tables import RehearsalSample, rehearsal_sample, rehearsal_table
from dph.runs.train.collect import Group
from dph.runs.train.rows import PolicyRow

FILE = "recent.parquet"
"""Of a checkpoint: ``step`` and the columns of a pool's ``rehearsal.parquet``, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentAnswer:
    """A correct answer, and the step that drew it."""

    step: int
    sample: RehearsalSample


def correct_answers(
    groups: Sequence[Group], rows: Sequence[Sequence[PolicyRow]]
) -> list[RehearsalSample]:
    """Correct answers of a step's labelled groups with their old log-probs, nats; ``rows`` theirs.

    ``correct`` is how many answers of the group are correct.
    """
    found = []
    for group, rows_of_group in zip(groups, rows, strict=True):
        if not group.labelled:  # CORRECT is what a vote says there
            continue
        pairs = zip(group.completions, rows_of_group, strict=True)
        right = [(g, row) for g, row in pairs if g.verdict.outcome is Outcome.CORRECT]
        found += [
            RehearsalSample(
                problem_id=graded.completion.problem_id,
                sample_index=graded.completion.sample_index,
                prompt_ids=group.prompt_ids,
                completion_ids=row.completion_ids,
                ref_logprobs=row.old_logprobs,
                correct=len(right),
                written=row.written,
            )
            for graded, row in right
        ]
    return found


def newest(
    answers: Sequence[RecentAnswer], *, step: int, steps: int, capacity: int | None
) -> tuple[RecentAnswer, ...]:
    """Those of the last ``steps`` steps up to ``step``, of these the last ``capacity``."""
    young = tuple(answer for answer in answers if answer.step > step - steps)
    return young if capacity is None else young[-capacity:]


class RecentAnswers:
    """Recent answers for the anchors that rehearse them; part of the state of a run.

    One list serves all of them: as old and as long as the most demanding asks for.
    """

    def __init__(self, anchors: Mapping[str, AnchorSettings]) -> None:
        self._wanted = {
            name: (anchor.recent, anchor.recent_capacity)
            for name, anchor in anchors.items()
            if anchor.recent is not None
        }
        self._step = 0
        self._answers: tuple[RecentAnswer, ...] = ()

    def __len__(self) -> int:
        return len(self._answers)

    def __contains__(self, anchor: object) -> bool:
        return anchor in self._wanted

    def samples(self) -> dict[str, tuple[RehearsalSample, ...]]:
        """The answers of every such anchor, the oldest first."""
        return {
            name: tuple(
                answer.sample
                for answer in newest(self._answers, step=self._step, steps=steps, capacity=capacity)
            )
            for name, (steps, capacity) in self._wanted.items()
        }

    def add(
        self, groups: Sequence[Group], rows: Sequence[Sequence[PolicyRow]], *, step: int
    ) -> None:
        """Take in what a finished step drew, and drop what is too old by then."""
        if not self._wanted:
            return
        fresh = (RecentAnswer(step=step, sample=s) for s in correct_answers(groups, rows))
        self._keep([*self._answers, *fresh], step)

    def metrics(self) -> dict[str, int]:
        """Number of answers held, where an anchor uses them."""
        return {"recent_answers": len(self)} if self._wanted else {}

    def write(self, checkpoint: Path) -> None:
        """Write the answers into a checkpoint that is being made."""
        if not self._wanted:
            return
        table = rehearsal_table([answer.sample for answer in self._answers])
        steps = pa.array([answer.step for answer in self._answers], pa.int32())
        pq.write_table(table.add_column(0, "step", steps), checkpoint / FILE, compression="zstd")

    def read(self, checkpoint: Path, *, step: int) -> None:
        """Go on from a checkpoint of ``step``.

        Raises:
            CheckpointError: its answers are missing or damaged.
        """
        if not self._wanted:
            return
        try:
            rows = pq.read_table(checkpoint / FILE).to_pylist()
            answers = [RecentAnswer(step=row["step"], sample=rehearsal_sample(row)) for row in rows]
        except (OSError, pa.ArrowException, KeyError) as error:
            raise CheckpointError(f"the checkpoint {checkpoint} is damaged: {error}") from error
        self._keep(answers, step)

    def _keep(self, answers: Iterable[RecentAnswer], step: int) -> None:
        ages, capacities = zip(*self._wanted.values(), strict=True)
        capacity = None if None in capacities else max(capacities)
        self._step = step
        self._answers = newest(tuple(answers), step=step, steps=max(ages), capacity=capacity)
