"""Style classifiers by name: what "how many ways of answering are left" counts."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import wraps
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from dph._base.import_path import is_import_path, load_callable
from dph.errors import SettingsError, VerifierError
from dph.tasks.verifiers.sql.extraction import extract_sql
from dph.tasks.verifiers.sql.tokens import Token, TokenKind, tokenize

# The style of a text-to-SQL answer is the first that applies: ``cte`` (the statement starts with
# WITH), ``steps`` (lines or ``;``-segments of working before the statement), ``nested`` (a subquery
# in FROM, JOIN or IN), ``alias`` (a table alias, used in a qualified column), else ``plain``;
# ``other`` without SQL.
SQL_STYLES = ("plain", "cte", "nested", "alias", "steps")

_LABEL = re.compile(r"\s*+\w++\s*+:")
# A name right after a table, or after AS or a closing parenthesis, is its alias unless it is:
_NO_ALIAS = frozenset(
    ("AS", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "INDEXED", "NOT")
)
_ENDS_FROM = frozenset(
    ("WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "WINDOW", "UNION", "INTERSECT", "EXCEPT")
)


class _Clause(Enum):
    """Clause of a FROM that a token is in."""

    OUTSIDE = auto()
    TABLES = auto()
    CONDITION = auto()


def sql_style(response: str) -> str:
    """The style of a response: one of SQL_STYLES, or ``other``.

    >>> sql_style("SELECT p . name FROM singer AS p WHERE p . age > 20")
    'alias'
    """
    found = extract_sql(response)
    if found is None:
        return "other"
    tokens = list(tokenize(found.statement))
    if not tokens or tokens[0].word not in ("SELECT", "WITH"):
        return "other"
    if tokens[0].word == "WITH":
        return "cte"
    if _has_steps(found.preamble):
        return "steps"
    if _is_nested(tokens):
        return "nested"
    dotted = [token for token, dot in pairwise(tokens) if dot.text == "." and token.is_name]
    return "alias" if _aliases(tokens) & set(map(_name, dotted)) else "plain"


def _has_steps(preamble: str) -> bool:
    """True if the text before the statement has a finished segment of working.

    The last segment leads up to the statement ("so the query is"), and one that ends in a colon
    only announces.
    """
    label = _LABEL.match(preamble)
    *segments, _ = re.split(r"[;\n]", preamble[label.end() if label else 0 :])
    return any(re.search(r"\w", part) and not part.rstrip().endswith(":") for part in segments)


def _is_nested(tokens: Sequence[Token]) -> bool:
    clauses = _clauses(tokens)
    for index in range(2, len(tokens)):
        opening, before = tokens[index - 1], tokens[index - 2]
        if tokens[index].word in ("SELECT", "WITH") and opening.text == "(":
            if before.word in ("FROM", "JOIN", "IN"):
                return True
            if before.text == "," and clauses[index - 2] is _Clause.TABLES:
                return True
    return False


def _aliases(tokens: Sequence[Token]) -> set[str]:
    """The names given to tables and subqueries in FROM clauses."""
    aliases = set()
    for index, clause in enumerate(_clauses(tokens)):
        token, before = tokens[index], tokens[index - 1]
        if clause is not _Clause.TABLES or not token.is_name or token.word in _NO_ALIAS:
            continue
        after_table = before.is_name and before.word not in ("FROM", *_NO_ALIAS)
        if after_table or before.word == "AS" or before.text == ")":
            aliases.add(_name(token))
    return aliases


def _clauses(tokens: Sequence[Token]) -> list[_Clause]:
    """For each token, where it is in the FROM clause at its own depth."""
    open_clauses: list[_Clause] = []
    clauses = []
    for token in tokens:
        del open_clauses[token.depth + 1 :]
        open_clauses += [_Clause.OUTSIDE] * (token.depth + 1 - len(open_clauses))
        now = open_clauses[token.depth]
        if token.word == "FROM":
            now = _Clause.TABLES
        elif token.word in _ENDS_FROM:
            now = _Clause.OUTSIDE
        elif now is not _Clause.OUTSIDE:
            if token.word == "JOIN" or token.text == ",":
                now = _Clause.TABLES
            elif token.word in ("ON", "USING"):
                now = _Clause.CONDITION
        open_clauses[token.depth] = now
        clauses.append(now)
    return clauses


def _name(token: Token) -> str:
    text = token.text if token.kind is TokenKind.WORD else token.text[1:-1]
    return text.lower()


_SIGNS = (
    {sign: sign for sign in "+-*/"}
    | {"\\times": "*", "\u00d7": "*", "\\cdot": "*", "\u00b7": "*"}
    | {"\\div": "/", "\u00f7": "/", "\u2212": "-"}
)
_OPERATION = re.compile(rf"[\d)] *({'|'.join(map(re.escape, _SIGNS))}) *[\d($]")


def first_operation(response: str) -> str | None:
    """The first operation between two numbers: ``+``, ``-``, ``*`` or ``/``; None without one.

    >>> first_operation("He pays 3 * $4 = 12, and 12 + 2 = 14.")
    '*'
    """
    found = _OPERATION.search(response)
    return _SIGNS[found[1]] if found else None


Style = Callable[[str], str | None]
"""From a response to the name of its style; None where it has none."""

STYLES: Mapping[str, Style] = MappingProxyType(
    {"sql": sql_style, "first_operation": first_operation}
)


def make_style(name: str | None, modules: Sequence[Path] = ()) -> Style | None:
    """The classifier ``name``, the function at an import path ``module:function``, or None.

    ``modules`` are directories in which a function's module is looked for first.

    Raises:
        SettingsError: no classifier has that name, or the function cannot be imported.
    """
    if name is None:
        return None
    if name in STYLES:
        return STYLES[name]
    if is_import_path(name):
        return _guarded(name, load_callable(name, modules))
    raise SettingsError(
        f"there is no style {name!r}; it is one of {', '.join(STYLES)}, "
        "or your own as 'module:function'"
    )


def _guarded(name: str, function: Callable[[str], object]) -> Style:
    """The user's function, whose failures are told as its own."""

    @wraps(function)
    def style(response: str) -> str | None:
        try:
            found = function(response)
        except Exception as error:
            raise VerifierError(
                f"the style classifier {name!r} failed on {response!r:.80}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if found is not None and not isinstance(found, str):
            raise VerifierError(
                f"the style classifier {name!r} returned {found!r:.80} "
                f"({type(found).__name__}); a text or None is allowed"
            )
        return found

    return style
