"""Finding the SQL statement in a response.

The rules, in order:

1. The last fenced block that is marked ``sql`` is the statement, as it is. A last fence that is
   never closed counts.
2. The last fenced block without a mark that starts with SELECT or WITH.
3. A bare statement: the last one that starts a line or follows ``;`` or ``:``, else the first
   SELECT or WITH anywhere. It ends at its first ``;`` outside parentheses and literals. A SELECT
   that continues a statement (after UNION, or behind the list of a WITH) starts none.
   "with" as an English word starts none: a WITH is followed by a name and AS or a column list.
"""

import re
from dataclasses import dataclass

from dph.verifiers.sql_tokens import Token, first_word, tokenize

_FENCE = re.compile(r"`{3,}+")
_MARK = re.compile(r"[ \t]*+(?:(sql(?:ite)?)\b|([\w+.-]*+)[ \t]*+(?=\r?\n|$))", re.IGNORECASE)
_WITH = re.compile(r"with\s++(?:recursive\s++)?[\w\"`\[][^\s(]*+\s*+(?:\(|as\b)", re.IGNORECASE)
_CONTINUES = frozenset({"UNION", "ALL", "INTERSECT", "EXCEPT"})


@dataclass(frozen=True, slots=True)
class ExtractedSQL:
    """A statement and what the response says before it."""

    statement: str
    preamble: str


def extract_sql(response: str) -> ExtractedSQL | None:
    """The SQL of a response by the module's rules, or None if there is none.

    >>> extract_sql("steps: keep age > 20 ; SELECT name FROM singer ;").statement
    'SELECT name FROM singer'
    """
    return _fenced(response) or _bare(response)


def _fenced(response: str) -> ExtractedSQL | None:
    fences = [match.span() for match in _FENCE.finditer(response)]
    fences.append((len(response), len(response)))
    unmarked: ExtractedSQL | None = None
    for index in range((len(fences) - 2) // 2 * 2, -1, -2):
        (fence, opening), (closing, _) = fences[index : index + 2]
        mark = _MARK.match(response, opening, closing)
        block = response[mark.end() if mark else opening : closing].strip()
        if mark and mark.group(1) and block:
            return ExtractedSQL(block, response[:fence])
        plain = mark is None or not mark.group(2)
        if unmarked is None and plain and first_word(block) in ("SELECT", "WITH"):
            unmarked = ExtractedSQL(block, response[:fence])
    return unmarked


def _bare(response: str) -> ExtractedSQL | None:
    start: int | None = None
    end, depth, awaits_select = len(response), 0, False
    previous: Token | None = None
    for token in tokenize(response):
        top_level = token.depth <= depth
        if _may_start(token, previous, response):
            begins = start is None or (top_level and _on_boundary(token, previous, response))
            if begins and not (awaits_select and token.word == "SELECT"):
                start, end, depth = token.start, len(response), token.depth
                awaits_select = token.word == "WITH"
            elif top_level and token.word == "SELECT":
                awaits_select = False
        elif (token.text == ";" and top_level) or (token.text == ")" and token.depth < depth):
            end, awaits_select = min(end, token.start), False
        previous = token
    if start is None:
        return None
    return ExtractedSQL(response[start:end].strip(), response[:start])


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
