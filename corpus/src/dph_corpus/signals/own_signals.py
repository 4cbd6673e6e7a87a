"""Signals of our own, for corrections of the released rules and for SQL; by name."""

import ast
import logging
import re
from collections.abc import Mapping

import sqlglot
from sqlglot.errors import SqlglotError

from dph_corpus.signals.c_family import CSHARP, GO
from dph_corpus.signals.python import parse_python, python_facts
from dph_corpus.signals.shared_signals import Measure, Signal, named, share
from dph_corpus.signals.view import FileView

# SQL: whether it parses, and how much of it is data.

_DIALECTS = ("sqlite", "postgres", "mysql")
_TEMPLATE = re.compile(r"\{\{|\{%")
_LONGEST = 200_000
_DATA = re.compile(
    r"^\s*INSERT\s+INTO\b[^;]*;|^\s*COPY\b[^;]*\bFROM\s+STDIN\b[^;]*;.*?^\\\.$",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_STRINGS = {"mysql": r"'(?:[^'\\]|\\.|'')*'"}
"""Strings of dialects that have their own."""
_APART = {
    dialect: re.compile(
        _STRINGS.get(dialect, r"'(?:[^']|'')*'")
        + r"|\"[^\"]*\"|`[^`]*`|(?P<dollars>\$\w*\$).*?(?P=dollars)|--[^\n]*|/\*.*?\*/|;",
        re.DOTALL,
    )
    for dialect in _DIALECTS
}
"""Strings, quoted names, comments, and what stands between statements, by dialect."""


def parsed_share(text: str) -> float | None:
    """Share of statements that parse, in the dialect that takes most of them.

    None for templates (Jinja), which are no SQL yet, for a file without a statement, and beyond
    200,000 characters.
    """
    if len(text) > _LONGEST or _TEMPLATE.search(text):
        return None
    best: float | None = None
    for dialect in _DIALECTS:
        if statements := _statements(text, _APART[dialect]):
            found = sum(_parses(piece, dialect) for piece in statements) / len(statements)
            best = max(best or 0.0, found)
        if best == 1:
            break
    return best


def data_share(text: str) -> float | None:
    """Characters of INSERT statements and of COPY blocks over all."""
    if not text:
        return None
    return sum(len(match[0]) for match in _DATA.finditer(text)) / len(text)


def _statements(text: str, apart: re.Pattern[str]) -> list[str]:
    """The text between semicolons, those in quotes and comments apart."""
    pieces, start = [], 0
    for match in apart.finditer(text):
        if match[0] == ";":
            pieces.append(text[start : match.start()])
            start = match.end()
    pieces.append(text[start:])
    bare = (apart.sub(lambda m: " " if m[0][:2] in ("--", "/*") else m[0], p) for p in pieces)
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


_MARKER = re.compile(
    r"do not (?:edit|modify)|@generated|auto-?generated|automatically generated"
    r"|generated automatically|(?:code|file|source) (?:is|was|has been) generated"
    r"|^\W*generated (?:by|from|with|using)\b",
    re.IGNORECASE | re.MULTILINE,
)
_HEAD = 400
_REMINDER = re.compile(r"\b(?:todo|fixme)\b|your code here", re.IGNORECASE)
_PYTHON_IMPORT = re.compile(r"\s*(?:import|from)\s")


def _lines_matching(pattern: str) -> Measure:
    compiled = re.compile(pattern)

    def frac_lines_matching(view: FileView) -> float | None:
        count = sum(bool(compiled.search(line)) for line in view.code_lines)
        return share(count, len(view.code_lines))

    return frac_lines_matching


def reminder_lines(view: FileView) -> float | None:
    """Lines of comments with a reminder as a word, each comment counted by itself."""
    lines = (line for piece in view.split.pieces for line in piece.split("\n"))
    return share(sum(bool(_REMINDER.search(line)) for line in lines), len(view.lines))


def _tree(view: FileView) -> ast.Module | None:
    """The syntax tree, a byte-order mark passed over as Python does in files."""
    bare = view.text.removeprefix("\ufeff")
    return view.tree if bare == view.text else parse_python(bare)


def python_no_logic(view: FileView) -> float | None:
    """Definitions, imports, class attributes and returns of a name or a constant, over lines."""
    tree = _tree(view)
    if tree is None:
        return None
    facts = view.python or python_facts(tree)
    imports = sum(bool(_PYTHON_IMPORT.match(line)) for line in view.code_lines)
    counted = facts.functions + facts.classes + facts.class_attributes + imports
    return share(counted + facts.plain_returns, len(view.code_lines))


def comments_as_lexed(view: FileView) -> float | None:
    """Comments over all characters, where a lexer told them from code."""
    if not view.text or not view.split.lexed:
        return None
    return sum(map(len, view.split.pieces)) / len(view.text)


OWN_SIGNALS: Mapping[str, Signal] = {
    signal.name: signal
    for signal in named(
        "",
        ("code_marked_generated", lambda view: float(bool(_MARKER.search(view.text[:_HEAD])))),
        ("code_reminder_lines", reminder_lines),
        ("code_comments_as_lexed", comments_as_lexed),
        ("code_assert_lines", _lines_matching(r"(?i)\bassert")),
        ("python_parses", lambda view: float(_tree(view) is not None)),
        ("python_pass_lines", _lines_matching(r"^\s*pass\b|:\s*pass\s*$")),
        ("python_import_lines", _lines_matching(r"^\s*(?:import|from)\s")),
        ("python_print_lines", _lines_matching(r"\bprint\s*\(")),
        ("python_no_logic", python_no_logic),
        ("csharp_no_variable", lambda v: float(not CSHARP.found("variables", v.split.code))),
        ("go_no_variable", lambda view: float(not GO.found("variables", view.split.code))),
        ("go_test_file", lambda view: float(view.path.lower().endswith("_test.go"))),
        ("sql_parsed_share", lambda view: parsed_share(view.text)),
        ("sql_data_share", lambda view: data_share(view.text)),
    )
}
