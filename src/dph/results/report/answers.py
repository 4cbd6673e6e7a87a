"""The answers of every run to every problem of a set, in columns, equal ones as one with a count.

An index holds what the list of problems is filtered and sorted by. The texts follow in pieces of
neighbouring problems, each text once, which the page reads one by one. A run's columns are numbers
of texts and of names in the index.
"""

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from dph.results.read.run_results import Tokens
from dph.results.report.report_data import ReportData, ReportRun, changes_of, evaluated_sets
from dph.runs.evaluate.evaluated_runs import equal_answers
from dph.tasks.problems import prompt_text

_LINE = 96


def excerpts(problems: Sequence[Problem | None]) -> list[str]:
    """The end of each question on one line, without what all of them end with.

    What stands before it (a schema, examples) is often shared; "" where a problem is not known.

    >>> excerpts([Problem(problem_id=x, prompt=f"{x} + 1 =") for x in "ab"])
    ['a', 'b']
    """
    lines = [" ".join(_question(problem).split()) for problem in problems]
    shared = _shared_end({line for line in lines if line})
    return [_end(line[: len(line) - shared].rstrip()) if line else "" for line in lines]


def _shared_end(lines: Set[str]) -> int:
    """Length of the common end of all lines; 0 where there is one line only."""
    backwards = sorted(line[::-1] for line in lines)
    if len(backwards) < 2:
        return 0
    pairs = zip(backwards[0], backwards[-1], strict=False)  # the most different two
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _question(problem: Problem | None) -> str:
    if problem is None:
        return ""
    return problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]


def _end(line: str) -> str:
    """At most ``_LINE`` characters, from a word's beginning on."""
    if len(line) <= _LINE:
        return line
    end = line[-_LINE:]
    return "… " + (end.partition(" ")[2] or end)


PIECE = 1_500_000
"""Characters of a piece, about; the page reads pieces whole."""

Row = Mapping[str, Any]
Groups = Mapping[str, Mapping[str, Sequence[Row]]]
"""Run, then problem: the rows of samples.parquet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that keep a page small; the page says where and how much was cut.

    ``longest`` characters of a text, ``most`` different answers of a run to a problem (the most
    frequent ones), None: all.
    """

    longest: int = 50_000
    most: int | None = None

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise SettingsError(
                f"the longest text must have at least 1 character, got {self.longest}"
            )
        if self.most is not None and self.most < 1:
            raise SettingsError(f"at least 1 answer per problem must be kept, got {self.most}")


def shown_problem(problem: Problem | None) -> dict[str, Any]:
    """A problem for a page: its prompt, and the fields of its gold answer."""
    if problem is None:
        return {"prompt": None, "fields": {}}
    return {"prompt": prompt_text(problem), "fields": dict(problem.answer)}


class Words:
    """Texts by number, each once."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._number = {text: i for i, text in enumerate(texts)}

    def number(self, text: str) -> int:
        """The number of ``text``, a new one where it is new."""
        return self._number.setdefault(text, len(self._number))

    def all(self) -> list[str]:
        """All texts, in the order of their numbers."""
        return list(self._number)


class PackedSet:
    """A set's index and pieces; ``outcomes`` and ``styles`` are numbered over all sets."""

    def __init__(
        self,
        name: str,
        problem_ids: Sequence[str],
        problems: Mapping[str, Problem],
        groups: Groups,
        *,
        changes: Mapping[str, Mapping[str, str]],
        outcomes: Words,
        styles: Words,
        tokens: Mapping[str, Tokens],
        limits: Limits,
    ) -> None:
        self._tokens = tokens
        self._name, self._ids, self._problems = name, problem_ids, problems
        self._groups, self._changes = groups, changes
        self._outcomes, self._styles, self._limits = outcomes, styles, limits

    def index(self) -> dict[str, Any]:
        """A column for each thing that problems are filtered by, runs by key."""
        return {
            "set": self._name,
            "size": len(self._ids),
            "ids": list(self._ids),
            "excerpts": excerpts([self._problems.get(i) for i in self._ids]),
            "runs": {run: self._run_index(run) for run in self._groups},
        }

    def pieces(self) -> Iterator[dict[str, Any]]:
        """Neighbouring problems with their texts and answers, about ``PIECE`` characters each."""
        piece = self._piece(0)
        for place, problem_id in enumerate(self._ids):
            piece.add(
                shown_problem(self._problems.get(problem_id)),
                {
                    run: self._answers(run, problem_id, of_run.get(problem_id, ()))
                    for run, of_run in self._groups.items()
                },
            )
            if piece.size >= PIECE:
                yield piece.document()
                piece = self._piece(place + 1)
        if piece.problems:
            yield piece.document()

    def _piece(self, first: int) -> "_Piece":
        return _Piece(first, list(self._groups), self._limits.longest)

    def _run_index(self, run: str) -> dict[str, Any]:
        of_run, changes = self._groups[run], self._changes.get(run, {})
        columns: dict[str, list[Any]] = {
            name: [] for name in ("samples", "correct", "greedy", "outcomes", "styles", "change")
        }
        for problem_id in self._ids:
            rows = of_run.get(problem_id, ())
            drawn = [row for row in rows if row["sample_index"] >= 0]
            greedy = [row["outcome"] for row in rows if row["sample_index"] < 0]
            columns["samples"].append(len(drawn))
            columns["correct"].append(sum(row["outcome"] == Outcome.CORRECT for row in drawn))
            columns["greedy"].append(int(greedy[0] == Outcome.CORRECT) if greedy else -1)
            columns["outcomes"].append(sorted({self._outcomes.number(r["outcome"]) for r in rows}))
            named = {row["style"] for row in rows} - {None}
            columns["styles"].append(sorted(map(self._styles.number, sorted(named))))
            columns["change"].append(changes.get(problem_id, ""))
        return columns

    def _answers(self, run: str, problem_id: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Different answers, outcomes and styles by number, tokens of the first that has them."""
        ranked = equal_answers([rows])
        details = self._tokens.get(run, {}).get((self._name, problem_id), {})
        return [
            {
                "text": one.text,
                "reason": one.reason,
                "outcome": self._outcomes.number(one.outcome),
                "style": -1 if one.style is None else self._styles.number(one.style),
                "reward": one.reward,
                "tokens": one.tokens,
                "cut": not one.finished,
                "samples": list(one.samples[0]),
                "detail": next((details[i] for i in one.samples[0] if i in details), None),
                "different": len(ranked),
            }
            for one in ranked[: self._limits.most]
        ]


class _Piece:
    """A piece while it grows; texts and reasons stand once in it."""

    def __init__(self, first: int, runs: Sequence[str], longest: int) -> None:
        self.first, self.size, self._longest = first, 0, longest
        self.problems: list[dict[str, Any]] = []
        self._texts, self._reasons = Words(), Words()
        self._runs: dict[str, dict[str, list[Any]]] = {
            run: {name: [] for name in ("groups", "different", *_COLUMNS)} for run in runs
        }

    def add(self, problem: dict[str, Any], answers: Mapping[str, list[dict[str, Any]]]) -> None:
        """One more problem, with each run's answers to it."""
        prompt = problem["prompt"] or ""
        if len(prompt) > self._longest:
            problem = {**problem, "prompt": prompt[: self._longest], "length": len(prompt)}
        self.problems.append(problem)
        self.size += len(problem["prompt"] or "")
        for run, found in answers.items():
            columns = self._runs[run]
            columns["groups"].append(len(found))
            columns["different"].append(found[0]["different"] if found else 0)
            for answer in found:
                columns["text"].append(self._text(answer["text"]))
                columns["reason"].append(self._reasons.number(answer["reason"]))
                for name in _COLUMNS[2:]:
                    columns[name].append(answer[name])

    def document(self) -> dict[str, Any]:
        """The piece as JSON: problems ``first`` to ``first + len(problems)`` of the set."""
        return {
            "first": self.first,
            "problems": self.problems,
            "texts": [text[: self._longest] for text in self._texts.all()],
            "lengths": {
                number: len(text)
                for number, text in enumerate(self._texts.all())
                if len(text) > self._longest
            },
            "reasons": self._reasons.all(),
            "runs": self._runs,
        }

    def _text(self, text: str) -> int:
        self.size += min(len(text), self._longest)
        return self._texts.number(text)


_COLUMNS = (
    *("text", "reason"),
    *("outcome", "style", "reward", "tokens", "cut", "samples", "detail"),
)


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


def unpacked(letters: str) -> Any:
    """The bytes that ``packed`` was given.

    >>> unpacked(packed({"a": [1, None]}))
    {'a': [1, None]}
    """
    return json.loads(gzip.decompress(base64.b64decode(letters)))


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
    outcomes, styles = Words(list(Outcome)), Words()
    sets: list[dict[str, Any]] = []
    pieces: dict[str, Any] = {}
    for number, name in enumerate(data.sets):
        packed_set = _packed_set(data, name, outcomes, styles, limits)
        starts = []
        for i, piece in enumerate(packed_set.pieces()):
            starts.append([f"answers-{number}-{i}", piece["first"]])
            pieces[f"answers-{number}-{i}"] = pack(piece)
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
    for batch in table.filter(pc.field("set") == name).to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            grouped.setdefault(row["problem_id"], []).append(row)
    return grouped
