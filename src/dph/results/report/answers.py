"""The answers of every run to every problem of a set, in columns, equal ones as one with a count.

An index holds what the list of problems is filtered and sorted by. The texts follow in pieces of
neighbouring problems, each text once, which the page reads one by one. A run's columns are numbers
of texts and of names in the index.
"""

import base64
import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from dph.results.charts.text_table import shortened
from dph.results.read.run_results import Tokens
from dph.results.report.report_data import ReportData, ReportRun, changes_of, evaluated_sets
from dph.runs.evaluate.evaluated_runs import equal_answers
from dph.tasks.problems import prompt_text

_LINE = 96


def excerpts(problems: Sequence[Problem | None]) -> list[str]:
    """The end of each question on one line, without what all of them end with.

    Its beginning (a schema, examples) is often shared; "" if a problem is not known.

    >>> excerpts([Problem(problem_id=x, prompt=f"{x} + 1 =") for x in "ab"])
    ['a', 'b']
    """
    last = [
        one and (one.prompt if isinstance(one.prompt, str) else one.prompt[-1]["content"])
        for one in problems
    ]
    lines = [" ".join((text or "").split()) for text in last]
    backwards = sorted({line[::-1] for line in lines if line})
    # The first and the last share no more than any two; of one line nothing is left out.
    ends = zip(backwards[0], backwards[-1], strict=False) if len(backwards) > 1 else ()
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    return [_end(line[: len(line) - shared].rstrip()) for line in lines]


def _end(line: str) -> str:
    """At most ``_LINE`` characters, from a word's beginning on."""
    if len(line) <= _LINE:
        return line
    end = line[-_LINE:]
    return "… " + (end.partition(" ")[2] or end)


PIECE = 1_500_000
"""Characters of a piece, about; the page reads pieces whole."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Characters of a text, and a run's most frequent different answers to a problem (None: all).

    The page says how much was cut.
    """

    longest: int = 50_000
    most: int | None = None

    def __post_init__(self) -> None:
        if (longest := self.longest) < 1:
            raise SettingsError(f"the longest text must have at least 1 character, got {longest}")
        if self.most is not None and self.most < 1:
            raise SettingsError(f"at least 1 answer per problem must be kept, got {self.most}")


Numbers = dict[str, int]
"""Number of each text, in order, each once."""


def _number(text: str, known: Numbers) -> int:
    return known.setdefault(text, len(known))


@dataclass(frozen=True, kw_only=True)
class PackedSet:
    """A set's answers: ``groups`` are rows of samples.parquet by run and problem.

    ``outcomes`` and ``styles`` are numbered over all sets.
    """

    name: str
    problem_ids: Sequence[str]
    problems: Mapping[str, Problem]
    groups: Mapping[str, Mapping[str, Sequence[Row]]]
    changes: Mapping[str, Mapping[str, str]]
    tokens: Mapping[str, Tokens]
    outcomes: Numbers
    styles: Numbers
    limits: Limits

    def index(self) -> dict[str, Any]:
        """A column for each thing that problems are filtered by, runs by key."""
        return {
            "set": self.name,
            "size": len(self.problem_ids),
            "ids": list(self.problem_ids),
            "excerpts": excerpts([self.problems.get(i) for i in self.problem_ids]),
            "runs": {run: self._run_index(run) for run in self.groups},
        }

    def pieces(self) -> Iterator[dict[str, Any]]:
        """Neighbouring problems with their texts and answers, about ``PIECE`` characters each."""
        piece = _Piece(self, 0)
        for place, problem_id in enumerate(self.problem_ids):
            piece.add(problem_id)
            if piece.size >= PIECE:
                yield piece.document()
                piece = _Piece(self, place + 1)
        if piece.problems:
            yield piece.document()

    def _run_index(self, run: str) -> dict[str, Any]:
        of_run, changes = self.groups[run], self.changes.get(run, {})
        columns: dict[str, list[Any]] = {
            name: [] for name in ("samples", "correct", "greedy", "outcomes", "styles", "change")
        }
        for problem_id in self.problem_ids:
            rows = of_run.get(problem_id, ())
            drawn = [row for row in rows if row["sample_index"] >= 0]
            greedy = [row["outcome"] for row in rows if row["sample_index"] < 0]
            columns["samples"].append(len(drawn))
            columns["correct"].append(sum(row["outcome"] == Outcome.CORRECT for row in drawn))
            columns["greedy"].append(int(greedy[0] == Outcome.CORRECT) if greedy else -1)
            columns["outcomes"].append(sorted({_number(r["outcome"], self.outcomes) for r in rows}))
            named = {row["style"] for row in rows} - {None}
            columns["styles"].append(sorted(_number(style, self.styles) for style in sorted(named)))
            columns["change"].append(changes.get(problem_id, ""))
        return columns


_COLUMNS = ("text", "reason", "outcome", "style", "reward", "tokens", "cut", "samples", "detail")


class _Piece:
    """A piece while it grows; texts and reasons stand once in it."""

    def __init__(self, of: PackedSet, first: int) -> None:
        self._of, self.first, self.size = of, first, 0
        self.problems: list[dict[str, Any]] = []
        self._texts, self._reasons = Numbers(), Numbers()
        names = ("groups", "different", *_COLUMNS)
        self._runs: dict[str, dict[str, list[Any]]] = {
            run: {name: [] for name in names} for run in of.groups
        }

    def add(self, problem_id: str) -> None:
        """One more problem, with each run's answers to it."""
        of = self._of
        problem = of.problems.get(problem_id)
        prompt = None if problem is None else prompt_text(problem)
        fields = {} if problem is None else self._cut(problem.answer)
        shown: dict[str, Any] = {"prompt": prompt, "fields": fields}
        if prompt is not None and len(prompt) > of.limits.longest:
            shown |= {"prompt": prompt[: of.limits.longest], "length": len(prompt)}
        self.problems.append(shown)
        self.size += min(len(prompt or ""), of.limits.longest)
        for run, rows in of.groups.items():
            answers = equal_answers([rows.get(problem_id, ())])
            details = of.tokens.get(run, {}).get((of.name, problem_id), {})
            columns, kept = self._runs[run], answers[: of.limits.most]
            columns["groups"].append(len(kept))
            columns["different"].append(len(answers))
            for one in kept:
                self.size += min(len(one.text), of.limits.longest)
                cells = {
                    "text": _number(one.text, self._texts),
                    "reason": _number(self._short(one.reason), self._reasons),
                    "outcome": _number(one.outcome, of.outcomes),
                    "style": -1 if one.style is None else _number(one.style, of.styles),
                    "reward": one.reward,
                    "tokens": one.tokens,
                    "cut": not one.finished,
                    "samples": list(one.samples[0]),
                    # of the first sample that has them
                    "detail": next((details[i] for i in one.samples[0] if i in details), None),
                }
                for name, value in cells.items():
                    columns[name].append(value)

    def _cut(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a problem's answer; those that are too long as the text that is left."""
        told = {name: v if isinstance(v, str) else json.dumps(v) for name, v in answer.items()}
        cut = {name: self._short(text) for name, text in told.items()}
        return {n: value if cut[n] == told[n] else cut[n] for n, value in answer.items()}

    def _short(self, text: str) -> str:
        self.size += min(len(text), self._of.limits.longest)
        return shortened(text, characters=self._of.limits.longest)

    def document(self) -> dict[str, Any]:
        """The piece as JSON: problems ``first`` to ``first + len(problems)`` of the set."""
        texts, longest = list(self._texts), self._of.limits.longest
        return {
            "first": self.first,
            "problems": self.problems,
            "texts": [text[:longest] for text in texts],
            "lengths": {i: len(text) for i, text in enumerate(texts) if len(text) > longest},
            "reasons": list(self._reasons),
            "runs": self._runs,
        }


def packed(value: Any) -> str:
    """``value`` as JSON, gzip and base64; the same value gives the same letters.

    No letter of it means anything to HTML, so what a model wrote cannot end the element that holds
    it. NaN is refused.

    >>> packed([1])[:8]
    'H4sIAAAA'
    """
    return base64.b64encode(gzipped(value)).decode("ascii")


def gzipped(value: Any) -> bytes:
    """``value`` as JSON in gzip; the same value gives the same bytes."""
    return gzip.compress(json_bytes(value), compresslevel=6, mtime=0)


def json_bytes(value: Any) -> bytes:
    r"""``value`` as JSON without spaces, in UTF-8. NaN is refused.

    >>> json_bytes(["\xe9", "\ud800"])
    b'["\xc3\xa9","\\ud800"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate can come out of a tokenizer: JSON's own escape carries it.
    return text.encode("utf-8", errors="backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBlocks:
    """``index`` (JSON, not packed yet) and every piece, packed, by its id."""

    index: dict[str, Any]
    pieces: dict[str, Any]
    answers: int
    """Answers of all runs, greedy ones among them."""


def answer_blocks(
    data: ReportData, limits: Limits, *, pack: Callable[[Any], Any] = packed
) -> AnswerBlocks:
    """All problems of all sets with every run's answers, a piece at a time through ``pack``."""
    outcomes, styles = {name.value: i for i, name in enumerate(Outcome)}, Numbers()
    sets: list[dict[str, Any]] = []
    pieces: dict[str, Any] = {}
    for number, name in enumerate(data.sets):
        runs = [run for run in data.runs if name in evaluated_sets(run)]
        groups = {run.key: _by_problem(run, name) for run in runs}
        packed_set = PackedSet(
            name=name,
            problem_ids=list(dict.fromkeys(one for of_run in groups.values() for one in of_run)),
            problems=data.problems.get(name, {}),
            groups=groups,
            changes={run.key: changes_of(data.diagnoses.get(run.key), name) for run in runs},
            tokens={run.key: run.tokens for run in runs},
            outcomes=outcomes,
            styles=styles,
            limits=limits,
        )
        starts = []
        for i, piece in enumerate(packed_set.pieces()):
            starts.append([f"answers-{number}-{i}", piece["first"]])
            pieces[f"answers-{number}-{i}"] = pack(piece)
        sets.append({**packed_set.index(), "pieces": starts})
    tables = [run.samples for run in data.runs if run.samples is not None]
    seen = {name for table in tables for name in table["outcome"].unique().to_pylist()}
    index = {"sets": sets, "outcomes": list(outcomes), "styles": list(styles)}
    index["seen"] = [outcome.value for outcome in Outcome if outcome in seen]
    return AnswerBlocks(index=index, pieces=pieces, answers=sum(table.num_rows for table in tables))


def _by_problem(run: ReportRun, name: str) -> dict[str, list[Row]]:
    table = run.samples if run.samples is not None else pa.table({"set": []})
    grouped: dict[str, list[Row]] = {}
    for batch in table.filter(pc.field("set") == name).to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            grouped.setdefault(row["problem_id"], []).append(row)
    return grouped
