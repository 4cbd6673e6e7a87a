"""The packed blocks of a report: an index of all sets, and pieces of problems with answers."""

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dph.records import Outcome
from dph.results.report.answers import Limits, PackedSet, Row, Words
from dph.results.report.report_data import ReportData, ReportRun, changes_of, evaluated_sets

# Data inside a page: JSON, compressed, in letters that HTML leaves alone.


def packed(value: Any) -> str:
    """``value`` as JSON, gzip and base64; the same value gives the same letters.

    No letter of it means anything to HTML, so what a model wrote cannot end the element that holds
    it. NaN is refused.

    >>> packed([1])[:8]
    'H4sIAAAA'
    """
    encoded = gzip.compress(json_bytes(value), compresslevel=6, mtime=0)
    return base64.b64encode(encoded).decode("ascii")


def json_bytes(value: Any) -> bytes:
    r"""``value`` as JSON without spaces, in UTF-8. NaN is refused.

    >>> json_bytes(["\xe9", "\ud800"])
    b'["\xc3\xa9","\\ud800"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate can come out of a tokenizer: JSON's own escape carries it.
    return text.encode("utf-8", errors="backslashreplace")


def unpacked(letters: str) -> Any:
    """The bytes that ``packed`` was given.

    >>> unpacked(packed({"a": [1, None]}))
    {'a': [1, None]}
    """
    return json.loads(gzip.decompress(base64.b64decode(letters)))


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
