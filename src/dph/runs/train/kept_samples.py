"""Answers that training drew, kept to be read: ``training_samples/step_000040.parquet``.

A file a step, so that a step that is done again replaces its own. Their number is bounded
(``train.keep_samples``), and so is the room they take: the oldest steps go first.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dph._base.files import atomic_path, make_directory
from dph._base.randomness import generator
from dph.records import GradedCompletion, Problem
from dph.runs.directory import RunDirectory
from dph.runs.evaluate.samples_file import GREEDY_INDEX, samples_table
from dph.runs.presample.tables import GRADED
from dph.runs.train.collect import Group
from dph.tasks.problems import problem_columns, prompt_text

# Some answers of an evaluation as a table for a tracker: who reads a curve wants to see answers.
#
# The same problems at every step, chosen by (seed, set) alone, with their answers from the greedy
# one on, so that two tables of a run are compared line by line.

COLUMNS = (
    "step",
    "problem",
    "prompt",
    "sample",
    "answer",
    "outcome",
    "reward",
    "style",
    "reason",
)
LONGEST = 10_000
"""Characters of a text that a table holds."""

Cell = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTable:
    """Answers to a set's problems; ``answers`` is how many there are, with those left out."""

    name: str
    rows: Sequence[tuple[Cell, ...]]
    answers: int

    @property
    def lines(self) -> list[list[Cell]]:
        """The rows; where answers were left out a last one says how many of how many are here."""
        lines = [list(row) for row in self.rows]
        if lines and len(lines) < self.answers:
            said = f"{len(lines):,} of {self.answers:,} answers are in this table"
            last = dict.fromkeys(COLUMNS, "") | {"problem": said}
            lines.append([*({**last, "step": lines[0][0], "reward": 0.0}.values())])
        return lines


def graded_table(
    problems: Sequence[Problem],
    sampled: Sequence[Sequence[GradedCompletion]],
    greedy: Sequence[Sequence[GradedCompletion]] | None,
    *,
    name: str,
    step: int,
    most: int,
    seed: int,
) -> SampleTable:
    """The table of answers that were just graded, a group a problem."""
    groups = [sampled] if greedy is None else [greedy, sampled]
    answers = sum(len(group) for kind in groups for group in kind)
    places = _chosen(len(problems), name=name, answers=answers, most=most, seed=seed)
    tables = [samples_table(name, [sampled[i] for i in places])]
    if greedy is not None:
        tables.append(samples_table(name, [greedy[i] for i in places], greedy=True))
    chosen = [problems[i] for i in places]
    return _table(pa.concat_tables(tables), chosen, name, step, most, answers)


def stored_table(
    samples: pa.Table,
    problems: Sequence[Problem],
    *,
    name: str,
    step: int,
    most: int,
    seed: int,
) -> SampleTable:
    """The table of the answers to a set in a samples table."""
    mine = samples.filter(pc.equal(samples["set"], name))
    places = _chosen(len(problems), name=name, answers=len(mine), most=most, seed=seed)
    chosen = [problems[i] for i in places]
    ids = pa.array([problem.problem_id for problem in chosen], pa.string())
    some = mine.filter(pc.is_in(mine["problem_id"], ids))
    return _table(some, chosen, name, step, most, len(mine))


def _chosen(problems: int, *, name: str, answers: int, most: int, seed: int) -> list[int]:
    """As many problems as are needed for ``most`` answers, in order."""
    each = max(1, answers // max(1, problems))
    order = generator(seed, "answers in a tracker's table", name).permutation(problems)
    return sorted(order[: -(-most // each)].tolist())


def _table(
    samples: pa.Table, problems: Sequence[Problem], name: str, step: int, most: int, answers: int
) -> SampleTable:
    asked = {problem.problem_id: problem for problem in problems}
    place = {problem_id: i for i, problem_id in enumerate(asked)}
    found = samples.to_pylist()
    found.sort(key=lambda row: (place[row["problem_id"]], row["sample_index"]))
    rows = [_row(row, prompt_text(asked[row["problem_id"]]), step) for row in found[:most]]
    return SampleTable(name=f"samples/{name}", rows=rows, answers=answers)


def _row(row: Mapping[str, str | int | float | None], prompt: str, step: int) -> tuple[Cell, ...]:
    greedy = row["sample_index"] == GREEDY_INDEX
    return (
        step,
        str(row["problem_id"]),
        _cut(prompt),
        "greedy" if greedy else str(row["sample_index"]),
        _cut(str(row["text"])),
        str(row["outcome"]),
        float(row["reward"] or 0),
        str(row["style"] or ""),
        _cut(str(row["reason"])),
    )


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} … ({LONGEST:,} of {len(text):,} characters)"


logger = logging.getLogger(__name__)

SCHEMA = 1
_ANSWER = [GRADED.field(name) for name in ("outcome", "reward", "reason", "style")]
KEPT = pa.schema(
    [
        ("step", pa.int32()),
        ("problem_id", pa.string()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
        ("labelled", pa.bool_()),
        ("sample_index", pa.int32()),
        ("text", pa.string()),
        ("tokens", pa.int32()),
        ("logprob", pa.float64()),
        ("finished", pa.bool_()),
        *_ANSWER,
    ]
).with_metadata({b"dph.schema": str(SCHEMA).encode()})


class KeptSamples:
    """Writes the answers of each step of a run.

    Args:
        directory: of the run.
        keep: those of so many problems a step, all, or none.
        megabytes: what all files together may take, 10^6 bytes each; the newest always stays.
        seed: of the run; with the step it decides whose answers are kept.
        labelled: the training problems.
        unlabelled: the prompts of ``[self_consistency]``.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep: Literal["all", "none"] | int,
        megabytes: int,
        seed: int,
        labelled: Sequence[Problem],
        unlabelled: Sequence[Problem],
    ) -> None:
        self._run = RunDirectory(directory)
        self._keep, self._seed = keep, seed
        self._limit, self._told = megabytes * 10**6, False
        self._problems: dict[bool, Mapping[str, Problem]] = {
            True: {p.problem_id: p for p in labelled},
            False: {p.problem_id: p for p in unlabelled},
        }
        self._sizes: dict[int, int] = {}

    def go_on(self, step: int) -> None:
        """Go on after ``step``: files of later steps are of a run that was killed, and go."""
        self._sizes = {}
        for found, path in self._run.kept_steps().items():
            if found > step:
                path.unlink()
            else:
                self._sizes[found] = path.stat().st_size

    def write(self, groups: Sequence[Group], step: int) -> None:
        """Keep answers of the groups that a step drew; nothing where it drew none."""
        if self._keep == "none" or not groups:
            return
        rows = [row for group in self._chosen(groups, step) for row in self._rows(group, step)]
        path = make_directory(self._run.training_samples) / f"step_{step:06d}.parquet"
        with atomic_path(path) as temporary:
            pq.write_table(pa.Table.from_pylist(rows, schema=KEPT), temporary, compression="zstd")
        self._sizes[step] = path.stat().st_size
        self._make_room()

    def _chosen(self, groups: Sequence[Group], step: int) -> list[Group]:
        if self._keep == "all" or int(self._keep) >= len(groups):
            return list(groups)
        order = generator(self._seed, "kept samples", step).permutation(len(groups))
        return [groups[i] for i in sorted(order[: int(self._keep)])]

    def _rows(self, group: Group, step: int) -> list[dict[str, Any]]:
        name = group.completions[0].completion.problem_id
        problem = problem_columns(self._problems[group.labelled][name])
        return [
            {
                "step": step,
                **problem,
                "labelled": group.labelled,
                "sample_index": graded.completion.sample_index,
                "text": graded.completion.text,
                "tokens": graded.completion.length,
                "logprob": sum(graded.completion.logprobs),
                "finished": graded.completion.finished,
                "outcome": graded.verdict.outcome.value,
                "reward": graded.verdict.reward,
                "reason": graded.verdict.reason,
                "style": graded.style,
            }
            for graded in group.completions
        ]

    def _make_room(self) -> None:
        while sum(self._sizes.values()) > self._limit and len(self._sizes) > 1:
            oldest = min(self._sizes)
            (self._run.training_samples / f"step_{oldest:06d}.parquet").unlink(missing_ok=True)
            del self._sizes[oldest]
            if not self._told:
                self._told = True
                logger.warning(
                    "answers of step %d and later ones are removed from %s: train.keep_samples_mb "
                    "= %d is reached",
                    oldest,
                    self._run.training_samples,
                    self._limit // 10**6,
                )
