"""Which of five styles a text-to-SQL answer is written in, by its structure and not its label.

The first that applies: ``cte`` (the statement starts with WITH), ``steps`` (lines or
``;``-segments of working before the statement), ``nested`` (a subquery in FROM, JOIN or IN),
``alias`` (a table alias, used in a qualified column), else ``plain``; ``other`` without SQL.
"""

import re
from collections.abc import Sequence

from dph.verifiers.sql_extraction import extract_sql
from dph.verifiers.sql_tokens import Token, TokenKind, tokenize

SQL_STYLES = ("plain", "cte", "nested", "alias", "steps")

_LABEL = re.compile(r"\s*+\w++\s*+:(?!\S*+:)")
_AFTER_TABLE = frozenset(
    "ON USING WHERE GROUP ORDER HAVING LIMIT OFFSET UNION INTERSECT EXCEPT JOIN INNER LEFT RIGHT "
    "FULL OUTER CROSS NATURAL WINDOW INDEXED NOT AS SELECT".split(" ")
)
_ENDS_FROM = frozenset(("WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "SELECT", "WINDOW"))


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
    if _has_used_alias(tokens):
        return "alias"
    return "plain"


def _has_steps(preamble: str) -> bool:
    """Whether the text before the statement has a finished segment of working.

    The last segment leads up to the statement ("so the query is"), and one that ends in a colon
    only announces.
    """
    *segments, _ = re.split(r"[;\n]", _LABEL.sub("", preamble, count=1))
    return any(
        re.search(r"\w", segment) and not segment.rstrip().endswith(":") for segment in segments
    )


def _is_nested(tokens: Sequence[Token]) -> bool:
    in_from = _in_from(tokens)
    for index in range(2, len(tokens)):
        opening, before = tokens[index - 1], tokens[index - 2]
        if tokens[index].word == "SELECT" and opening.text == "(":
            if before.word in ("FROM", "JOIN", "IN"):
                return True
            if before.text == "," and in_from[index - 2]:
                return True
    return False


def _has_used_alias(tokens: Sequence[Token]) -> bool:
    qualifiers = {
        _name(token)
        for token, dot in zip(tokens, tokens[1:], strict=False)
        if dot.text == "." and token.is_name
    }
    return bool(_aliases(tokens) & qualifiers)


def _aliases(tokens: Sequence[Token]) -> set[str]:
    """The names given to tables and subqueries in FROM clauses."""
    in_from = _in_from(tokens)
    aliases = set()
    for index in range(1, len(tokens)):
        token, before = tokens[index], tokens[index - 1]
        if not in_from[index] or not token.is_name or token.word in _AFTER_TABLE:
            continue
        named = before.is_name and before.word not in ("FROM", "JOIN", "ON", "AND", "OR")
        if before.word == "AS" or before.text == ")" or (named and before.word not in _AFTER_TABLE):
            aliases.add(_name(token))
    return aliases


def _in_from(tokens: Sequence[Token]) -> list[bool]:
    """For each token, whether it belongs to the FROM clause at its own depth."""
    inside: list[bool] = [False]
    marks = []
    for token in tokens:
        del inside[token.depth + 1 :]
        inside += [False] * (token.depth + 1 - len(inside))
        if token.word == "FROM":
            inside[token.depth] = True
        elif token.word in _ENDS_FROM:
            inside[token.depth] = False
        marks.append(inside[token.depth])
    return marks


def _name(token: Token) -> str:
    text = token.text if token.kind is TokenKind.WORD else token.text[1:-1]
    return text.lower()
