"""The packed blocks of a report: an index of all sets, and pieces of problems with answers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dph.records import Outcome
from dph.results.report.answers import Limits, PackedSet, Row, Words
from dph.results.report.packed import packed
from dph.results.report.report_data import ReportData, ReportRun, evaluated_sets
from dph.results.report.run_diagnoses import changes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBlocks:
    """``index`` (JSON, not packed yet) and the letters of every piece, by the id of its element."""

    index: dict[str, Any]
    pieces: dict[str, str]
    answers: int
    """Answers of all runs, greedy ones among them."""


def answer_blocks(data: ReportData, limits: Limits) -> AnswerBlocks:
    """All problems of all sets with every run's answers."""
    outcomes, styles = Words(list(Outcome)), Words()
    sets: list[dict[str, Any]] = []
    pieces: dict[str, str] = {}
    for number, name in enumerate(data.sets):
        packed_set = _packed_set(data, name, outcomes, styles, limits)
        names = {f"answers-{number}-{i}": piece for i, piece in enumerate(packed_set.pieces())}
        pieces |= {key: packed(piece) for key, piece in names.items()}
        starts = [[key, piece["first"]] for key, piece in names.items()]
        sets.append({**packed_set.index(), "pieces": starts})
    index = {"sets": sets, "outcomes": outcomes.all(), "styles": styles.all()}
    index["seen"] = seen_outcomes(run.samples for run in data.runs if run.samples is not None)
    answers = sum(run.samples.num_rows for run in data.runs if run.samples is not None)
    return AnswerBlocks(index=index, pieces=pieces, answers=answers)


def seen_outcomes(tables: Iterable[pa.Table]) -> list[str]:
    """The outcomes that some answer has, in the order of ``Outcome``."""
    found = {name for table in tables for name in table["outcome"].unique().to_pylist()}
    return [outcome.value for outcome in Outcome if outcome in found]


def _packed_set(
    data: ReportData, name: str, outcomes: Words, styles: Words, limits: Limits
) -> PackedSet:
    runs = [run for run in data.runs if name in evaluated_sets(run)]
    groups = {run.key: _by_problem(run, name) for run in runs}
    return PackedSet(
        name,
        list(dict.fromkeys(problem for of_run in groups.values() for problem in of_run)),
        data.problems.get(name, {}),
        groups,
        changes={run.key: changes_of(data.diagnoses.get(run.key), name) for run in runs},
        outcomes=outcomes,
        styles=styles,
        tokens={run.key: run.tokens for run in runs},
        limits=limits,
    )


def _by_problem(run: ReportRun, name: str) -> dict[str, list[Row]]:
    table = run.samples if run.samples is not None else pa.table({"set": []})
    grouped: dict[str, list[Row]] = {}
    for row in _rows(table.filter(pc.field("set") == name)):
        grouped.setdefault(row["problem_id"], []).append(row)
    return grouped


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()
