"""Number of right answers of the initial policy to each problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph.errors import PoolError
from dph.records import Outcome
from dph.runs.presample.manifest import Manifest
from dph.runs.presample.pool import SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseCounts:
    """Right answers by problem, of ``samples`` to each; the final sample does not count."""

    correct: Mapping[str, int]
    samples: int

    def of(self, problem_id: str) -> int:
        """The count of one problem.

        Raises:
            PoolError: pre-sampling did not draw for it.
        """
        if problem_id not in self.correct:
            raise PoolError(
                f"the pool has no samples of problem {problem_id!r}, but objective.advantage "
                "reads how many of the initial policy's were right: pre-sample these problems"
            )
        return self.correct[problem_id]


def read_base_counts(pool: Path, manifest: Manifest) -> BaseCounts:
    """The counts of every problem of a pool, explored, rehearsed or neither."""
    drawn = manifest.source.answers
    table = pq.read_table(pool / SAMPLES, columns=["problem_id", "sample_index", "outcome"])
    table = table.filter(pc.less(table["sample_index"], drawn))
    right = pc.equal(table["outcome"], Outcome.CORRECT.value).cast("int64")
    sums = table.append_column("right", right).group_by("problem_id").aggregate([("right", "sum")])
    found = zip(sums["problem_id"].to_pylist(), sums["right_sum"].to_pylist(), strict=True)
    return BaseCounts(correct=dict(found), samples=drawn)
