"""The answers of every run to every problem of a set, in columns, equal ones as one with a count.

An index holds what the list of problems is filtered and sorted by. The texts follow in pieces of
neighbouring problems, which the page reads one by one. docs/report.md has the columns.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from dph.runs.evaluate.samples_file import TOKENS_FILE, read_token_details
from dph.tasks.problems import prompt_text

# The tokens of answers that have them (``evaluate.token_details``), as the page colours them.

Tokens = Mapping[tuple[str, str, int], Mapping[str, list[Any]]]
"""By set, problem and sample index."""
_DIGITS = 3


def token_rows(run: Path) -> Tokens:
    """Text, log-prob, entropy and log-ratio to the initial policy of each token, in nats.

    Empty where the run kept none.

    Raises:
        DataError: the file is damaged or of a later version.
    """
    if not (run / TOKENS_FILE).is_file():
        return {}
    return {
        (row["set"], row["problem_id"], row["sample_index"]): token_detail(row)
        for row in read_token_details(run / TOKENS_FILE).to_pylist()
    }


def token_detail(row: Mapping[str, Any]) -> Mapping[str, list[Any]]:
    """A row of ``tokens.parquet`` as pages show it."""
    return {
        "pieces": row["pieces"],
        "logprob": [round(value, _DIGITS) for value in row["logprobs"]],
        "entropy": [round(value, _DIGITS) for value in row["entropy"]],
        "ratio": [
            round(mine - theirs, _DIGITS)
            for mine, theirs in zip(row["logprobs"], row["ref_logprobs"], strict=True)
        ],
    }


# What a model was asked, as one line of a list.

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


class EqualAnswers(NamedTuple):
    """Answers of a run to a problem that are the same in everything; ``samples`` says which."""

    text: str
    outcome: str
    reason: str
    style: str | None
    reward: float
    tokens: int
    finished: bool
    samples: list[int]


def equal_answers(rows: Sequence[Row]) -> list[EqualAnswers]:
    """Equal answers as one, the most frequent first, of equals the one that came first."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        key = tuple(row[column] for column in EqualAnswers._fields[:-1])
        found.setdefault(key, []).append(row["sample_index"])
    grouped = [EqualAnswers._make((*key, samples)) for key, samples in found.items()]
    return sorted(grouped, key=_frequent_first)


def _frequent_first(one: EqualAnswers) -> tuple[int, int]:
    return -sum(sample >= 0 for sample in one.samples), min(one.samples)


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
                self._problem(problem_id),
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

    def _problem(self, problem_id: str) -> dict[str, Any]:
        problem = self._problems.get(problem_id)
        if problem is None:
            return {"prompt": None, "fields": {}}
        return {"prompt": prompt_text(problem), "fields": dict(problem.answer)}

    def _answers(self, run: str, problem_id: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Equal answers as one, the most frequent first, of equals the one that came first."""
        ranked = equal_answers(rows)
        return [
            {
                "text": one.text,
                "outcome": self._outcomes.number(one.outcome),
                "reason": one.reason,
                "style": -1 if one.style is None else self._styles.number(one.style),
                "reward": one.reward,
                "tokens": one.tokens,
                "cut": not one.finished,
                "samples": one.samples,
                "detail": self._detail(run, problem_id, one.samples),
                "different": len(ranked),
            }
            for one in ranked[: self._limits.most]
        ]

    def _detail(
        self, run: str, problem_id: str, samples: Sequence[int]
    ) -> Mapping[str, list[Any]] | None:
        """The tokens of the first of the samples that has them."""
        of_run = self._tokens.get(run, {})
        keys = ((self._name, problem_id, sample) for sample in samples)
        return next((of_run[key] for key in keys if key in of_run), None)


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
