"""SQL: whether it parses, and how much of it is data."""

import logging
import re

import sqlglot
from sqlglot.errors import SqlglotError

_DIALECTS = ("sqlite", "postgres", "mysql")
_TEMPLATE = re.compile(r"\{\{|\{%")
_LONGEST = 200_000
_DATA = re.compile(
    r"^\s*INSERT\s+INTO\b[^;]*;|^\s*COPY\b[^;]*\bFROM\s+STDIN\b[^;]*;.*?^\\\.$",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)


def parsed_share(text: str) -> float | None:
    """Share of statements that parse, in the dialect that takes most of them.

    None for templates (Jinja), which are no SQL yet, for a file without a statement, and beyond
    200,000 characters.
    """
    if len(text) > _LONGEST or _TEMPLATE.search(text):
        return None
    statements = [piece for piece in _statements(text) if piece.strip()]
    if not statements:
        return None
    best = 0
    for dialect in _DIALECTS:
        best = max(best, sum(_parses(piece, dialect) for piece in statements))
        if best == len(statements):
            break
    return best / len(statements)


def data_share(text: str) -> float | None:
    """Characters of INSERT statements and of COPY blocks over all."""
    if not text:
        return None
    return sum(len(match[0]) for match in _DATA.finditer(text)) / len(text)


def _statements(text: str) -> list[str]:
    """The text between semicolons, those in quotes and comments apart."""
    pieces, start = [], 0
    for match in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|;", text, re.DOTALL):
        if match[0] == ";":
            pieces.append(text[start : match.start()])
            start = match.end()
    pieces.append(text[start:])
    bare = (re.sub(r"--[^\n]*|/\*.*?\*/", " ", piece, flags=re.DOTALL) for piece in pieces)
    return [piece for piece in bare if piece.strip()]


def _parses(statement: str, dialect: str) -> bool:
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # it warns of what it takes as a bare command
    try:
        found = sqlglot.parse(statement, dialect=dialect)
    except (SqlglotError, RecursionError):
        return False
    finally:
        logger.setLevel(level)
    return all(tree is not None and not isinstance(tree, sqlglot.exp.Command) for tree in found)
