"""Some answers of an evaluation as a table for a tracker: who reads a curve wants to see answers.

The same problems at every step, chosen by (seed, set) alone, with their answers from the greedy one
on, so that two tables of a run are compared line by line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dph._base.randomness import generator
from dph.records import GradedCompletion, Problem
from dph.runs.evaluate.samples_file import GREEDY_INDEX, samples_table
from dph.tasks.problems import prompt_text

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
