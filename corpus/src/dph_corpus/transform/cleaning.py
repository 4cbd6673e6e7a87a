"""One text cleaned: what was done, and to what."""

import io
import tokenize
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dph_corpus.documents import Document
from dph_corpus.signals.python import parse_python
from dph_corpus.stage import DocumentOutcome, StageSpec
from dph_corpus.tables import schema_of
from dph_corpus.transform.addresses import email_addresses, public_addresses
from dph_corpus.transform.notices import without_notice
from dph_corpus.transform.secrets import secrets
from dph_corpus.transform.spans import PrivateSpan, replaced

_MOST_PASSES = 5


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text, and how many of each kind were taken out of it: notice, email, ip, key, password."""

    text: str
    counts: Mapping[str, int]


def clean(text: str, language: str) -> Cleaned:
    """Take the leading notice away, and put placeholders for addresses, keys and passwords.

    Cleaning what was cleaned changes nothing. Python that parses does so afterwards: only its
    comments and strings are touched, and a find whose placeholder would break it stays.
    """
    parses = language == "python" and parse_python(text) is not None
    counts: Counter[str] = Counter()
    without = without_notice(text, language)
    if without != text:
        counts["notice"] += 1
        text = without
    for _ in range(_MOST_PASSES):  # a placeholder may end what hid another find
        found = findings(text, language, parses=parses)
        shortest_first = sorted(found, key=lambda f: f.end - f.start)  # long ones leave a token
        fit = _harmless(text, shortest_first, []) if parses else found
        if not fit:
            counts.update(["left as it was"] * len(found))
            break
        counts.update(f.kind for f in fit)
        text = replaced(text, fit)
    return Cleaned(text, counts)


def _harmless(text: str, found: list[PrivateSpan], kept: list[PrivateSpan]) -> list[PrivateSpan]:
    """``kept`` and those of ``found`` after whose replacement Python parses, by halves."""
    both = [*kept, *found]
    if not found or parse_python(replaced(text, both)) is not None:
        return both
    if len(found) == 1:
        return kept
    half = len(found) // 2
    return _harmless(text, found[half:], _harmless(text, found[:half], kept))


def findings(text: str, language: str, *, parses: bool) -> list[PrivateSpan]:
    """Replacements of one pass in ``text``, in order; in Python that parses, in its prose alone."""
    found = [*secrets(text, language), *email_addresses(text), *public_addresses(text)]
    if found and parses:
        spans = _python_prose(text)
        found = [f for f in found if any(a <= f.start and f.start < b for a, b in spans)]
    chosen: list[PrivateSpan] = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        if not chosen or finding.start >= chosen[-1].end:
            chosen.append(finding)
    return chosen


def _python_prose(text: str) -> list[tuple[int, int]]:
    """Positions of the comments and strings of Python, by characters."""
    starts = [0]
    for line in io.StringIO(text):
        starts.append(starts[-1] + len(line))
    kinds = {tokenize.COMMENT, tokenize.STRING}
    kinds |= {
        kind
        for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE")
        if (kind := getattr(tokenize, name, None)) is not None
    }
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [
        (starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1])
        for token in tokens
        if token.type in kinds
    ]


# Transforming as a stage of a corpus: every document stays, with a cleaned text.

CHANGES = schema_of("changes")
"""A row for each kind of thing that was taken out of a document."""


def transform_spec() -> StageSpec:
    """The stage that cleans texts."""
    return StageSpec(
        name="transform",
        entry="dph_corpus.transform.cleaning:TransformStage",
        settings={},
        version=3,
    )


class TransformStage:
    """Cleans documents; it has no settings."""

    tables: Mapping[str, pa.Schema] = MappingProxyType({"changes": CHANGES})

    def __init__(self, _settings: Mapping[str, Any] = MappingProxyType({})) -> None:
        pass

    def __call__(self, document: Document) -> DocumentOutcome:
        """The document with a cleaned text."""
        cleaned = clean(document.text, document.language)
        if changed := cleaned.text != document.text:
            document = document.with_text(cleaned.text)
        rows = [
            {"id": document.id, "kind": kind, "count": count}
            for kind, count in sorted(cleaned.counts.items())
        ]
        counts = {**cleaned.counts, **({"documents changed": 1} if changed else {})}
        return DocumentOutcome(document, rows={"changes": rows}, counts=counts)
