"""The file in which a person says which URL patterns are what is looked for.

``url_patterns.csv`` lists the sections of related domains, those with most missed pages first. A
person writes ``yes`` or ``no`` under ``accept``, may change or add patterns, and gives the file to
the next run. What was not asked about, or not answered, is not accepted.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dph._base.files import sha256, write_text
from dph._base.files.rows import read_rows
from dph.errors import DataError

# URLs: the domain of a page, and patterns that a person has reviewed.
#
# A pattern is SQL's LIKE, as in OpenCoder's Table 14: ``%`` is any run of characters, everything
# else is itself (an underscore, too, which URLs are full of). It is held against the URL without
# its scheme and without ``www.``, whatever the case: ``stackoverflow.com/questions%``.

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def bare_url(url: str) -> str:
    """A URL without scheme, user, port and ``www.``, in lower case.

    >>> bare_url("https://www.Example.com:8080/a/B?c=1")
    'example.com/a/b?c=1'
    """
    host = domain_of(url)
    rest = _SCHEME.sub("", url).removeprefix("//")
    place = re.search(r"[/?#]", rest)
    return host + (rest[place.start() :].lower() if place else "")


def domain_of(url: str) -> str:
    """The host of a URL without ``www.``; '' where there is none.

    >>> domain_of("http://www.example.com/a"), domain_of("docs.example.com/a"), domain_of("")
    ('example.com', 'docs.example.com', '')
    """
    text = url if _SCHEME.match(url) else f"//{url.removeprefix('//')}"
    try:
        host = urlsplit(text).hostname or ""
    except ValueError:  # such as http://[
        return ""
    return host.removeprefix("www.")


def section_of(url: str) -> str:
    """The pattern of what lies under the first part of a page's path: what a person is asked about.

    >>> section_of("https://example.com/questions/1/how"), section_of("https://example.com/about")
    ('example.com/questions/%', 'example.com/about%')
    """
    host, slash, path = bare_url(url).partition("/")
    first, more, _ = re.split(r"[?#]", path, maxsplit=1)[0].partition("/")
    return f"{host}/{first}{'/' if more else ''}%" if slash else f"{host}%"


class Patterns:
    """Accepted patterns.

    >>> Patterns(["%.example.com/q/%"]).matches("https://docs.example.com/q/7")
    True
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.texts = tuple(patterns)
        """As they are written."""
        alternatives = [
            ".*".join(re.escape(part) for part in re.split("%+", pattern.lower()))
            for pattern in patterns
        ]
        self._expression = re.compile("|".join(alternatives), re.DOTALL) if patterns else None

    def matches(self, url: str) -> bool:
        """Whether one of them matches all of the URL."""
        return self._expression is not None and bool(self._expression.fullmatch(bare_url(url)))


COLUMNS = ("pattern", "accept", "domain", "pages", "recalled", "missed", "example")
_ANSWERS = {"yes": True, "no": False, "": None}


@dataclass(slots=True)
class UrlSection:
    """Pages under the first part of a path: how many there are, how many were recalled."""

    domain: str
    pages: int = 0
    recalled: int = 0
    example: str = ""
    """The first page that was missed, else the first."""

    @property
    def missed(self) -> int:
        """Pages that were not recalled."""
        return self.pages - self.recalled


def sections(pages: Iterable[tuple[str, str, bool]]) -> dict[str, UrlSection]:
    """The sections of (domain, URL, whether it was recalled), by pattern."""
    found: dict[str, UrlSection] = {}
    examples: defaultdict[str, dict[bool, str]] = defaultdict(dict)
    for domain, url, recalled in pages:
        pattern = section_of(url)
        section = found.setdefault(pattern, UrlSection(domain))
        section.pages += 1
        section.recalled += recalled
        examples[pattern].setdefault(recalled, url)
    for pattern, section in found.items():
        section.example = examples[pattern].get(False) or examples[pattern][True]
    return found


def write_review(
    path: Path, found: Mapping[str, UrlSection], answers: Mapping[str, bool | None]
) -> None:
    """Write the sections with what was answered so far; answers about other patterns stay."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    words = {answer: word for word, answer in _ANSWERS.items()}
    for pattern in sorted({*found, *answers}, key=lambda name: _rank(name, found)):
        section = found.get(pattern, UrlSection(""))
        writer.writerow(
            {"pattern": pattern, "accept": words[answers.get(pattern)], "domain": section.domain}
            | {"pages": section.pages, "recalled": section.recalled, "missed": section.missed}
            | {"example": section.example}
        )
    write_text(path, text.getvalue())


def _rank(pattern: str, found: Mapping[str, UrlSection]) -> tuple[int, str]:
    return (-found[pattern].missed if pattern in found else 1, pattern)


def read_review(path: Path) -> dict[str, bool | None]:
    """Answers of a person, by pattern: accepted, refused, or None."""
    answers: dict[str, bool | None] = {}
    for place, row in _rows_with(path, "pattern", "accept"):
        pattern, answer = (str(row[name] or "").strip() for name in ("pattern", "accept"))
        if not pattern.strip("%"):
            raise DataError(f"{place}: the pattern {pattern!r} would match every page")
        if pattern in answers:
            raise DataError(f"{place}: the pattern {pattern!r} occurs twice")
        if answer.lower() not in _ANSWERS:
            raise DataError(f"{place}: accept must be yes, no or empty, got {answer!r}")
        answers[pattern] = _ANSWERS[answer.lower()]
    return answers


def _rows_with(path: Path, *columns: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows with all of the columns, and where each stands."""
    for place, row in read_rows(path, columns=list(columns)):
        there = list(row) if isinstance(row, dict) else []
        if lacking := [name for name in columns if name not in there]:
            known = ", ".join(there) or "nothing"
            raise DataError(f"{place}: there is no {lacking[0]!r}, only {known}")
        yield place, row


def accepted(answers: Mapping[str, bool | None]) -> Sequence[str]:
    """The accepted patterns, in order."""
    return sorted(pattern for pattern, answer in answers.items() if answer)


# A labelled slice of the pages: what recall and precision of a round are measured on.

_LABELS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class RecallScores(NamedTuple):
    """Of the labelled pages; None where it would divide by 0."""

    recall: float | None
    precision: float | None


def read_labels(path: Path) -> dict[str, bool]:
    """The labels (``relevant``) of pages by their ``id``."""
    labels: dict[str, bool] = {}
    for place, row in _rows_with(path, "id", "relevant"):
        label = _LABELS.get(str(row["relevant"]).strip().lower())
        if label is None:
            raise DataError(f"{place}: relevant must be true or false, got {row['relevant']!r}")
        name = str(row["id"]) if isinstance(row["id"], int) else row["id"]
        if name in labels:
            raise DataError(f"{place}: the id {name!r} occurs twice")
        labels[name] = label
    return labels


def measure(labels: Mapping[str, bool], recalled: Collection[str]) -> RecallScores:
    """Recall and precision of ``recalled`` among the labelled pages.

    >>> measure({"a": True, "b": True, "c": False}, {"a", "c", "d"})
    RecallScores(recall=0.5, precision=0.5)
    """
    found = sum(label for name, label in labels.items() if name in recalled)
    relevant, named = sum(labels.values()), sum(name in recalled for name in labels)
    return RecallScores(found / relevant if relevant else None, found / named if named else None)


QUANTILES = (0.5, 0.9, 0.99, 1.0)
"""Of the scores of a round, that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Record of one round.

    ``quantiles`` are those of the scores of all pages, by ``QUANTILES``; ``threshold`` is the score
    from which pages are recalled, ``division`` the one that divides them best, which ``divided`` of
    them reach. ``recall`` and ``precision`` are those on the labelled pages, of what it recalls by
    score or by URL; None without any.
    """

    round: int
    seeds: int
    others: int
    by_score: int
    quantiles: Mapping[str, float]
    threshold: float
    division: float
    divided: int
    by_url: int
    related_domains: int
    joined: int
    recall: float | None = None
    precision: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDomain:
    """Pages of a domain in a round."""

    round: int
    domain: str
    pages: int
    recalled: int
    related: bool


@dataclass(frozen=True, slots=True)
class LearntFiles:
    """Places of a round's BPE and classifier."""

    pieces: Path
    classifier: Path

    def digests(self) -> dict[str, str]:
        """The SHA-256 of both."""
        return {"pieces": sha256(self.pieces), "classifier": sha256(self.classifier)}


@dataclass(frozen=True, slots=True)
class Learnt:
    """Results of the rounds: the last classifier, the domains it calls related, and the records.

    ``scores`` are those of the last round, shard by shard; ``sections`` are those of the related
    domains, to be reviewed.
    """

    files: LearntFiles
    scores: Sequence[Path]
    related: Sequence[str]
    sections: Mapping[str, UrlSection]
    rounds: Sequence[Round]
    domains: Sequence[WebDomain]

    @property
    def threshold(self) -> float:
        """The score from which the last round recalls a page."""
        return self.rounds[-1].threshold
