"""Answers that training drew, kept for reading: ``training_samples/step_000040.parquet``.

A file for each step, so that a step that is done again replaces its own. Their number is limited
(``train.keep_samples``), and so is their size: the oldest steps are removed first.
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

# Some answers of an evaluation as a table for a tracker. Every step shows the same problems, chosen
# by (seed, set), and their answers from the greedy one on, so that two tables of a run can be
# compared line by line.

COLUMNS = ("step", "problem", "prompt", "sample", "answer", "outcome", "reward", "style", "reason")
LONGEST = 10_000
"""Characters of a text that a table holds."""

Cell = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTable:
    """Answers to a set's problems, some of ``answers``."""

    name: str
    rows: Sequence[tuple[Cell, ...]]
    answers: int

    @property
    def lines(self) -> list[list[Cell]]:
        """The rows; if answers were left out, a last one says how many."""
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
    """The table of answers that were just graded, a group for each problem."""
    tables = [samples_table(name, sampled)]
    if greedy is not None:
        tables.append(samples_table(name, greedy, greedy=True))
    answers = pa.concat_tables(tables)
    return stored_table(answers, problems, name=name, step=step, most=most, seed=seed)


def stored_table(
    samples: pa.Table, problems: Sequence[Problem], *, name: str, step: int, most: int, seed: int
) -> SampleTable:
    """The table of the answers to a set in a samples table, with whole problems in their order."""
    of_set = samples.filter(pc.equal(samples["set"], name))
    each = max(1, len(of_set) // max(1, len(problems)))
    order = generator(seed, "answers in a tracker's table", name).permutation(len(problems))
    chosen = [problems[i] for i in sorted(order[: -(-most // each)].tolist())]
    asked = {problem.problem_id: (i, prompt_text(problem)) for i, problem in enumerate(chosen)}
    ids = pa.array(list(asked), pa.string())
    found = of_set.filter(pc.is_in(of_set["problem_id"], ids)).to_pylist()
    found.sort(key=lambda row: (asked[row["problem_id"]][0], row["sample_index"]))
    rows = [_row(row, asked[row["problem_id"]][1], step) for row in found[:most]]
    return SampleTable(name=f"samples/{name}", rows=rows, answers=len(of_set))


def _row(row: Mapping[str, str | int | float | None], prompt: str, step: int) -> tuple[Cell, ...]:
    index = row["sample_index"]
    return (
        step,
        str(row["problem_id"]),
        _cut(prompt),
        "greedy" if index == GREEDY_INDEX else str(index),
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
        *(GRADED.field(name) for name in ("outcome", "reward", "reason", "style")),
    ]
).with_metadata({b"dph.schema": str(SCHEMA).encode()})


class KeptSamples:
    """Writes the answers of each step of a run, to all, none or ``keep`` of its problems.

    All files together take at most ``megabytes`` of 10^6 bytes; the newest always stays.
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
        self._limit, self._warned = megabytes * 10**6, False
        self._problems: dict[bool, Mapping[str, Problem]] = {
            True: {p.problem_id: p for p in labelled},
            False: {p.problem_id: p for p in unlabelled},
        }

    def go_on(self, step: int) -> None:
        """Continue after ``step``: remove the files of later steps, which a kill took back."""
        for found, path in self._run.kept_steps().items():
            if found > step:
                path.unlink()

    def write(self, groups: Sequence[Group], step: int) -> None:
        """Write the answers of the groups that a step drew."""
        if self._keep == "none" or not groups:
            return
        if self._keep != "all" and int(self._keep) < len(groups):
            order = generator(self._seed, "kept samples", step).permutation(len(groups))
            groups = [groups[i] for i in sorted(order[: int(self._keep)])]
        rows = [row for group in groups for row in self._rows(group, step)]
        path = make_directory(self._run.training_samples) / f"step_{step:06d}.parquet"
        with atomic_path(path) as temporary:
            pq.write_table(pa.Table.from_pylist(rows, schema=KEPT), temporary, compression="zstd")
        files = self._run.kept_steps()
        sizes = {step: path.stat().st_size for step, path in files.items()}
        while sum(sizes.values()) > self._limit and len(sizes) > 1:
            oldest = min(sizes)
            files[oldest].unlink()
            del sizes[oldest]
            if not self._warned:
                self._warned = True
                logger.warning(
                    "answers of step %d and later ones are removed from %s: train.keep_samples_mb "
                    "= %d is reached",
                    *(oldest, self._run.training_samples, self._limit // 10**6),
                )

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
                **graded.verdict_columns(),
            }
            for graded in group.completions
        ]
