"""Statements that stand in a text without any mark."""

import re

from dph.tasks.verifiers.sql.found_statement import ExtractedSQL, is_placeholder
from dph.tasks.verifiers.sql.inline_code import inline_statement
from dph.tasks.verifiers.sql.tokens import Token, tokenize

_WITH = re.compile(r"with\s++(?:recursive\s++)?[\w\"`\[][^\s(]*+\s*+(?:\(|as\b)", re.IGNORECASE)
_CONTINUES = frozenset({"UNION", "ALL", "INTERSECT", "EXCEPT"})


def bare_statement(response: str) -> ExtractedSQL | None:
    """The last statement on a boundary, else the last in inline code, else the first anywhere."""
    start: int | None = None
    end, depth, awaits_select = len(response), 0, False
    previous: Token | None = None
    bounded = False
    for token in tokenize(response):
        top_level = token.depth <= depth
        if _may_start(token, previous, response):
            begins = start is None or (top_level and _on_boundary(token, previous, response))
            if begins and not (awaits_select and token.word == "SELECT"):
                start, end, depth = token.start, len(response), token.depth
                bounded = _on_boundary(token, previous, response)
                awaits_select = token.word == "WITH"
            elif top_level and token.word == "SELECT":
                awaits_select = False
        elif (token.text == ";" and top_level) or (token.text == ")" and token.depth < depth):
            end, awaits_select = min(end, token.start), False
        previous = token
    if not bounded and (inline := inline_statement(response)) is not None:
        return inline
    if start is None:
        return None
    statement = response[start:end].strip()
    return None if is_placeholder(statement) else ExtractedSQL(statement, response[:start])


def _may_start(token: Token, previous: Token | None, text: str) -> bool:
    """Whether the token is a SELECT or a real WITH that continues nothing before it."""
    if previous is not None and previous.word in _CONTINUES:
        return False
    return token.word == "SELECT" or (
        token.word == "WITH" and _WITH.match(text, token.start) is not None
    )


def _on_boundary(token: Token, previous: Token | None, text: str) -> bool:
    """Whether the token starts a line or follows ``;`` or ``:``."""
    if previous is None or previous.text in (";", ":"):
        return True
    return "\n" in text[previous.end : token.start]
