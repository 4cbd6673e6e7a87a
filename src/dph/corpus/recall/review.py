"""The file in which a person says which URL patterns are what is looked for.

``url_patterns.csv`` lists the sections of related domains, those with most missed pages first. A
person writes ``yes`` or ``no`` under ``accept``, may change or add patterns, and gives the file to
the next run. What was not asked about, or not answered, is not accepted.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dph._base.files import write_text
from dph._base.files.rows import read_rows
from dph.corpus.recall.urls import section_of
from dph.errors import DataError

COLUMNS = ("pattern", "accept", "domain", "pages", "recalled", "missed", "example")
_ANSWERS = {"yes": True, "no": False, "": None}


@dataclass(slots=True)
class Section:
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


def sections(pages: Iterable[tuple[str, str, bool]]) -> dict[str, Section]:
    """The sections of (domain, URL, whether it was recalled), by pattern."""
    found: dict[str, Section] = {}
    examples: defaultdict[str, dict[bool, str]] = defaultdict(dict)
    for domain, url, recalled in pages:
        pattern = section_of(url)
        section = found.setdefault(pattern, Section(domain))
        section.pages += 1
        section.recalled += recalled
        examples[pattern].setdefault(recalled, url)
    for pattern, section in found.items():
        section.example = examples[pattern].get(False) or examples[pattern][True]
    return found


def write_review(
    path: Path, found: Mapping[str, Section], answers: Mapping[str, bool | None]
) -> None:
    """Write the sections with what was answered so far; answers about other patterns stay."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    words = {answer: word for word, answer in _ANSWERS.items()}
    for pattern in sorted({*found, *answers}, key=lambda name: _rank(name, found)):
        section = found.get(pattern, Section(""))
        writer.writerow(
            {"pattern": pattern, "accept": words[answers.get(pattern)], "domain": section.domain}
            | {"pages": section.pages, "recalled": section.recalled, "missed": section.missed}
            | {"example": section.example}
        )
    write_text(path, text.getvalue())


def _rank(pattern: str, found: Mapping[str, Section]) -> tuple[int, str]:
    return (-found[pattern].missed if pattern in found else 1, pattern)


def read_review(path: Path) -> dict[str, bool | None]:
    """What a person answered, by pattern: accepted, refused, or None.

    Raises:
        DataError: it cannot be read, a pattern is empty or there twice, or an answer is none.
    """
    answers: dict[str, bool | None] = {}
    for place, row in read_rows(path, columns=["pattern", "accept"]):
        pattern, answer = (str(row[name] or "").strip() for name in ("pattern", "accept"))
        if not pattern.strip("%"):
            raise DataError(f"{place}: the pattern {pattern!r} would match every page")
        if pattern in answers:
            raise DataError(f"{place}: the pattern {pattern!r} is there twice")
        if answer.lower() not in _ANSWERS:
            raise DataError(f"{place}: accept must be yes, no or empty, got {answer!r}")
        answers[pattern] = _ANSWERS[answer.lower()]
    return answers


def accepted(answers: Mapping[str, bool | None]) -> Sequence[str]:
    """The accepted patterns, in order."""
    return sorted(pattern for pattern, answer in answers.items() if answer)
