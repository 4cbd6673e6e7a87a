"""A set's problems with the counts of every run, in columns, and the lists that come of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int

from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.results.report.answers import excerpts
from dph.runs.evaluate.samples_file import read_samples

# How a run's answers to every problem came out, counted once, and where they lie in its file.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnswerCounts:
    """A run's answers to the problems of a set, one value a problem, in the order of the file.

    ``first`` and ``rows`` say where a problem's answers lie in samples.parquet; ``greedy`` is 1 or
    0, -1 without a greedy answer; ``outcomes`` and ``styles`` tell who has an answer of each.
    """

    ids: list[str]
    first: Int[np.ndarray, "problems"]
    rows: Int[np.ndarray, "problems"]
    samples: Int[np.ndarray, "problems"]
    correct: Int[np.ndarray, "problems"]
    greedy: Int[np.ndarray, "problems"]
    outcomes: Mapping[str, Bool[np.ndarray, "problems"]]
    styles: Mapping[str, Bool[np.ndarray, "problems"]]


def count_answers(path: Path) -> dict[str, AnswerCounts]:
    """The counts of every set in a samples file, by set.

    Raises:
        DataError: the file is damaged, or rows of a problem are not side by side.
    """
    table = read_samples(path, texts=False)
    if not table.num_rows:
        return {}
    sets, set_codes = _codes(table, "set")
    ids, id_codes = _codes(table, "problem_id")
    changed = (np.diff(set_codes) != 0) | (np.diff(id_codes) != 0)
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    pairs = set_codes[starts].astype(np.int64) * len(ids) + id_codes[starts]
    if len(np.unique(pairs)) < len(pairs):
        raise DataError(f"{path}: rows of a problem are missing or not adjacent")
    ends = np.append(starts[1:], table.num_rows)
    columns = _columns(table, starts)
    found = {}
    for code, name in enumerate(sets):
        mine = np.flatnonzero(set_codes[starts] == code)
        found[name] = AnswerCounts(
            ids=[ids[i] for i in id_codes[starts[mine]]],
            first=starts[mine],
            rows=(ends - starts)[mine],
            samples=columns["samples"][mine],
            correct=columns["correct"][mine],
            greedy=columns["greedy"][mine],
            outcomes=_having(table, "outcome", starts, mine),
            styles=_having(table, "style", starts, mine),
        )
    return found


def _columns(table: pa.Table, starts: np.ndarray) -> dict[str, np.ndarray]:
    drawn = table["sample_index"].to_numpy() >= 0
    names, codes = _codes(table, "outcome")
    right = codes == (names.index(Outcome.CORRECT) if Outcome.CORRECT in names else -1)
    greedy = np.add.reduceat((~drawn).astype(np.int32), starts) > 0
    greedy_right = np.add.reduceat((~drawn & right).astype(np.int32), starts) > 0
    return {
        "samples": np.add.reduceat(drawn.astype(np.int32), starts),
        "correct": np.add.reduceat((drawn & right).astype(np.int32), starts),
        "greedy": np.where(greedy, greedy_right.astype(np.int8), np.int8(-1)),
    }


def _having(
    table: pa.Table, column: str, starts: np.ndarray, mine: np.ndarray
) -> dict[str, np.ndarray]:
    names, codes = _codes(table, column)
    found = {n: np.logical_or.reduceat(codes == c, starts)[mine] for c, n in enumerate(names)}
    return {name: having for name, having in found.items() if having.any()}


def _codes(table: pa.Table, column: str) -> tuple[list[str], np.ndarray]:
    """The values of a column, and the number of each row's; -1 where it has none."""
    encoded = table[column].combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values: list[str] = encoded.dictionary.to_pylist()
    return values, encoded.indices.fill_null(-1).to_numpy()


# What a list of problems is filtered and sorted by, as the browser asks for it.

MOST = 500
"""Lines that are answered at once."""
_LONGEST = 1000
"""Characters of a search."""
_MOST_DIGITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemQuery:
    """A filter (browser/filters.js has the same); ``shown`` are keys of runs, "" and None: any."""

    set: str
    shown: tuple[str, ...]
    q: str = ""
    answers: bool = False
    run: str = ""
    change: str = ""
    outcome: str = ""
    style: str = ""
    least: int | None = None
    most: int | None = None
    sort: str = "place"
    down: bool = False

    @property
    def words(self) -> list[str]:
        """The words that are looked for; what stands in quotes is one."""
        found = re.finditer(r'"([^"]+)"?|(\S+)', self.q)
        return [match[1] or match[2] for match in found]

    @property
    def asks_runs(self) -> bool:
        """Whether one run must fulfil something."""
        texts = self.change or self.outcome or self.style
        return bool(texts) or self.least is not None or self.most is not None


def query_of(words: Mapping[str, str]) -> ProblemQuery:
    """The query in the words of an address.

    Raises:
        SettingsError: a number is none, or the search is too long.
    """
    q = words.get("q", "")
    if len(q) > _LONGEST:
        raise SettingsError(f"a search has at most {_LONGEST} characters, got {len(q)}")
    texts = {name: words.get(name, "") for name in ("run", "change", "outcome", "style")}
    return ProblemQuery(
        set=words.get("set", ""),
        shown=tuple(words.get("shown", "").split()),
        q=q,
        answers=words.get("answers") == "1",
        least=None if "from" not in words else number_of(words, "from"),
        most=None if "to" not in words else number_of(words, "to"),
        sort=words.get("sort") or "place",
        down=words.get("down") == "1",
        **texts,
    )


def number_of(words: Mapping[str, str], name: str, otherwise: int = 0) -> int:
    """A whole number among the words.

    Raises:
        SettingsError: it is none.
    """
    text = words.get(name, str(otherwise))
    if not re.fullmatch(rf"-?[0-9]{{1,{_MOST_DIGITS}}}", text):
        raise SettingsError(
            f"{name} is a whole number of at most {_MOST_DIGITS} digits, got {text!r:.40}"
        )
    return int(text)


_DIGITS = "0123456789"
_PARTS = re.compile(r"[0-9]+|[^0-9]+")

Changes = Mapping[str, str]
"""Change of each problem (lost, gained ...), by its id."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunColumns:
    """A run's counts with a value for every problem of the set; ``at`` is -1 where it has none."""

    counts: AnswerCounts
    at: Int[np.ndarray, "problems"]
    change: np.ndarray

    def value(self, column: np.ndarray, absent: int = 0) -> Int[np.ndarray, "problems"]:
        """A column of the counts, in the order of the set."""
        return np.asarray(np.where(self.at >= 0, column[self.at], absent))

    def having(self, of: Mapping[str, np.ndarray], name: str) -> Bool[np.ndarray, "problems"]:
        """Problems that have an answer with that outcome, or of that style."""
        if name not in of:
            return np.zeros(len(self.at), dtype=bool)
        return np.asarray((self.at >= 0) & of[name][self.at])

    def share(self) -> np.ndarray:
        """Shares of the samples that are correct; -1 where there are none."""
        samples = self.value(self.counts.samples)
        share = self.value(self.counts.correct) / np.maximum(samples, 1)
        return np.where(samples > 0, share, -1.0)


class SetIndex:
    """The problems of one set: ids in the order of the first run that has each."""

    def __init__(
        self,
        name: str,
        counts: Mapping[str, AnswerCounts],
        problems: Mapping[str, Problem],
    ) -> None:
        self.name, self.problems = name, problems
        self.ids = list(dict.fromkeys(one for of_run in counts.values() for one in of_run.ids))
        self.place = {problem_id: i for i, problem_id in enumerate(self.ids)}
        self.excerpts = excerpts([problems.get(one) for one in self.ids])
        self.runs = {key: self._columns(of, {}) for key, of in counts.items()}

    def take_changes(self, changes: Mapping[str, Changes]) -> None:
        """Take in what a diagnosis found later."""
        counts = {key: run.counts for key, run in self.runs.items()}
        self.runs = {key: self._columns(of, changes.get(key, {})) for key, of in counts.items()}

    def places(
        self, query: ProblemQuery, found: Bool[np.ndarray, "problems"] | None
    ) -> Int[np.ndarray, "listed"]:
        """The problems that pass, in order; ``found`` are those of the search, None: all."""
        shown = [key for key in query.shown if key in self.runs]
        asked = [key for key in shown if key == query.run] if query.run else shown
        passing = np.ones(len(self.ids), dtype=bool) if found is None else found
        if query.asks_runs:
            of_runs = [self._passing(self.runs[key], query) for key in asked]
            passing = passing & np.logical_or.reduce([np.zeros_like(passing), *of_runs])
        return self._sorted(np.flatnonzero(passing), query, shown)

    def line(self, place: int) -> dict[str, Any]:
        """A problem's line of the list."""
        runs = {}
        for key, run in self.runs.items():
            at = int(run.at[place])
            counts = run.counts
            runs[key] = {
                "samples": int(counts.samples[at]) if at >= 0 else 0,
                "correct": int(counts.correct[at]) if at >= 0 else 0,
                "greedy": int(counts.greedy[at]) if at >= 0 else -1,
                "change": str(run.change[place]),
            }
        return {"id": self.ids[place], "excerpt": self.excerpts[place], "runs": runs}

    @cached_property
    def _by_id(self) -> Int[np.ndarray, "problems"]:
        """The rank of every id where numbers in them count as numbers."""
        order = sorted(range(len(self.ids)), key=lambda place: _natural(self.ids[place]))
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        return ranks

    def _columns(self, counts: AnswerCounts, changes: Changes) -> RunColumns:
        at = np.full(len(self.ids), -1, dtype=np.int64)
        at[[self.place[one] for one in counts.ids]] = np.arange(len(counts.ids))
        change = np.array([changes.get(one, "") for one in self.ids], dtype="U9")
        return RunColumns(counts=counts, at=at, change=change)

    def _passing(self, run: RunColumns, query: ProblemQuery) -> Bool[np.ndarray, "problems"]:
        passing = np.ones(len(self.ids), dtype=bool)
        if query.change:
            passing &= run.change == query.change
        if query.outcome:
            passing &= run.having(run.counts.outcomes, query.outcome)
        if query.style:
            passing &= run.having(run.counts.styles, query.style)
        correct = run.value(run.counts.correct)
        if query.least is not None:
            passing &= correct >= query.least
        if query.most is not None:
            passing &= correct <= query.most
        return passing

    def _sorted(
        self, places: Int[np.ndarray, "listed"], query: ProblemQuery, shown: Sequence[str]
    ) -> Int[np.ndarray, "listed"]:
        if query.sort == "place":
            return places[::-1] if query.down else places
        if query.sort == "id":
            order = places[np.argsort(self._by_id[places], kind="stable")]
            return order[::-1] if query.down else order
        values = (-1 if query.down else 1) * self._sort_values(query, shown)
        return places[np.argsort(values[places], kind="stable")]

    def _sort_values(self, query: ProblemQuery, shown: Sequence[str]) -> np.ndarray:
        """The share of a run, or how far the shares of those that are shown lie apart."""
        if query.sort in self.runs:
            return self.runs[query.sort].share()
        nothing = np.full(len(self.ids), -1.0)
        shares = np.array([self.runs[key].share() for key in shown] or [nothing])
        highest = shares.max(axis=0)
        lowest = np.where(shares < 0, np.inf, shares).min(axis=0)
        return np.where(highest < 0, -1.0, highest - lowest)


def _natural(problem_id: str) -> list[tuple[int, int, str]]:
    """Numbers before words, numbers by their size, however long they are."""
    parts = [
        part.lstrip("0") if part[0] in _DIGITS else part for part in _PARTS.findall(problem_id)
    ]
    digits = [part[0] in _DIGITS for part in _PARTS.findall(problem_id)]
    return [
        (0, len(part), part) if number else (1, 0, part.lower())
        for part, number in zip(parts, digits, strict=True)
    ]
