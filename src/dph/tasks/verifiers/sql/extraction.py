"""Finding the SQL statement in a response.

Places of a turn's answer (dph.tasks.verifiers.turn) to look at, in the order given
(DEFAULT_SOURCES); the first that holds SQL decides:

1. ``answer``: the last ``<answer>`` element that holds SQL, fenced or bare. The last one may be
   left open.
2. ``fenced``: the last block fenced by ``` or ~~~ and marked ``sql`` (or a dialect) is the
   statement, as it is; without one, the last unmarked block that starts with SELECT or WITH. A
   last fence that is never closed counts. Backticks in a literal or a quoted name are no fence.
3. ``tool_call``: the last ``<tool_call>`` element (or a response that is nothing but a call)
   whose JSON arguments hold ``sql``, ``query``, ``sql_query`` or ``statement``.
4. ``bare``: a statement in the text: the last one that starts a line or follows ``;`` or ``:``,
   else the last in inline code, else the first SELECT or WITH anywhere. It ends at its first ``;``
   outside parentheses and literals. A SELECT that continues a statement (after UNION, or behind the
   list of a WITH) starts none. "with" as an English word starts none: a WITH is followed by a name
   and AS or columns.

What a prompt shows in place of an answer does not count as one: a block of nothing but comments
("-- Your SQL query"), of an ellipsis, or of words such as "your SQL query here".
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from dph.tasks.verifiers.sql.tokens import Token, TokenKind, first_word, is_blank, tokenize
from dph.tasks.verifiers.turn import read_turn

__all__ = ["DEFAULT_SOURCES", "ExtractedSQL", "SQLSource", "extract_sql"]


# A statement that was found in a response, and what only stands in its place.

_PLACEHOLDER = re.compile(
    r"[\s<\[{(*_-]*(?:your|the|insert|write|put|place|enter|final|generated)\b[^;'\"=]{0,80}"
    r"\b(?:sql|query|statement|code|answer)\b(?:\s+(?:here|goes here|query|code))?[\s>\])}.:!*_-]*",
    re.IGNORECASE,
)
_ELLIPSIS = re.compile(
    r"[\s<\[(]*+(?:\.{3,}+|…)[\s>\])]*+|(?:select|with)\s++(?:\.{3}|…).*+",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ExtractedSQL:
    """A statement and what the response says before it."""

    statement: str
    preamble: str


def is_placeholder(text: str) -> bool:
    """Whether the text only says where SQL belongs.

    >>> is_placeholder("-- Your SQL query"), is_placeholder("<your SQL here>")
    (True, True)
    """
    if is_blank(text):
        return True
    return bool(_PLACEHOLDER.fullmatch(text) or _ELLIPSIS.fullmatch(text))


# Statements in fenced blocks.

# Tildes fence only at the start of a line: in a line they strike out, or say "about".
_FENCE = re.compile(r"`{3,}+|(?:(?<=\n)|(?<![\s\S]))[ \t]*+~{3,}+")
_DIALECT = r"(?:sql(?:ite)?3?|mysql|postgres(?:ql)?|psql|tsql)"
_ATTACHED = re.compile(rf"{_DIALECT}\b", re.IGNORECASE)
_MARK = re.compile(rf"[ \t]*+(?:({_DIALECT})\b|([\w+.-]*+)[ \t]*+(?=\r?\n|$))", re.IGNORECASE)
# In one line, and not the apostrophes of "it's": a quote that is never closed hides no fence.
_LITERAL = re.compile(
    r"""(?<![\w'])'(?:[^'\n]|'')*+'(?!\w)|(?<![\w"])"(?:[^"\n]|"")*+"(?!\w)|\[[^\]\[\n]*+\]"""
)
_SELECT_OR_LINE = re.compile(r"\bselect\b|\n", re.IGNORECASE)
_FENCE_BEGINNING = 1000


@dataclass(frozen=True, slots=True)
class _Block:
    start: int
    body: int
    end: int


def fenced_statement(response: str) -> ExtractedSQL | None:
    """The last block marked as SQL, else the last unmarked one that starts with SELECT or WITH."""
    unmarked: ExtractedSQL | None = None
    for block in reversed(list(_blocks(response))):
        mark = _MARK.match(response, block.body, block.end)
        body = response[mark.end() if mark else block.body : block.end].strip()
        if not body or is_placeholder(body):
            continue
        if mark and mark.group(1):
            return ExtractedSQL(body, response[: block.start])
        plain = mark is None or not mark.group(2)
        if unmarked is None and plain and first_word(body) in ("SELECT", "WITH"):
            unmarked = ExtractedSQL(body, response[: block.start])
    return unmarked


def _blocks(response: str) -> Iterator[_Block]:
    """The fenced blocks from first to last.

    A fence is closed by the next one of its character, unless that one has ``sql`` attached: such
    a fence opens a block, whatever was left open before. Of a statement's literal, or of its quoted
    name, a run of backticks is a part and no fence.
    """
    opening: re.Match[str] | None = None
    quoted = _Quoted(response)
    for fence in _FENCE.finditer(response):
        if quoted.holds(fence, opening):
            continue
        if opening is None:
            opening = fence
            continue
        attached = _ATTACHED.match(response, fence.end()) is not None
        if fence.group().lstrip()[0] == opening.group().lstrip()[0] or attached:
            yield _Block(opening.start(), opening.end(), fence.start())
            opening = fence if attached else None
    if opening is not None:
        yield _Block(opening.start(), opening.end(), len(response))


class _Quoted:
    """The literals and quoted names of a response, which is read once for all of its fences."""

    def __init__(self, response: str) -> None:
        self._response = response
        self._spans = [match.span() for match in _LITERAL.finditer(response)]
        self._starts = [start for start, _ in self._spans]
        found = list(_SELECT_OR_LINE.finditer(response))
        self._marks = [match.start() for match in found]
        self._is_select = [match.group() != "\n" for match in found]

    def holds(self, fence: re.Match[str], opening: re.Match[str] | None) -> bool:
        """Whether a fence stands in a literal of a statement: of the open block, or of its line."""
        place = bisect_right(self._starts, fence.start() - 1) - 1
        if place < 0 or self._spans[place][1] < fence.end():
            return False
        start = self._starts[place]
        if opening is not None:
            return start >= opening.end() and self._is_sql(opening.end())
        mark = bisect_right(self._marks, start) - 1
        return self._response[start] == "'" and mark >= 0 and self._is_select[mark]

    def _is_sql(self, body: int) -> bool:
        """Whether a block is marked as SQL, or begins as SQL does."""
        mark = _MARK.match(self._response, body)
        if mark and mark.group(1):
            return True
        begin = mark.end() if mark else body
        return first_word(self._response[begin : begin + _FENCE_BEGINNING]) in ("SELECT", "WITH")


# Statements in ``<answer>`` elements and in the arguments of tool calls.

_ANSWER = re.compile(r"<(/?)answer>", re.IGNORECASE)
_TOOL_CALL = re.compile(r"<(/?)tool_call>", re.IGNORECASE)
_ARGUMENTS = ("arguments", "parameters", "input")
_NAMES = ("sql", "query", "sql_query", "statement")


def answer_spans(response: str) -> list[tuple[int, int]]:
    """Positions of the insides of the ``<answer>`` elements, the last one first."""
    return list(_elements(_ANSWER, response))[::-1]


def tool_call_statement(response: str) -> ExtractedSQL | None:
    """The statement in the last tool call that has one."""
    for start, end in list(_elements(_TOOL_CALL, response))[::-1]:
        if statement := _argument(response[start:end]):
            return ExtractedSQL(statement, response[:start])
    alone = response.strip()
    if alone.startswith("{") and alone.endswith("}") and (statement := _argument(alone)):
        return ExtractedSQL(statement, "")
    return None


def _elements(tag: re.Pattern[str], response: str) -> Iterator[tuple[int, int]]:
    """The insides of a tag's elements; an opening tag ends one that is still open."""
    start: int | None = None
    for match in tag.finditer(response):
        if start is not None:
            yield start, match.start()
        start = None if match.group(1) else match.end()
    if start is not None:
        yield start, len(response)


def _argument(payload: str) -> str:
    """The SQL argument of a call, or ''."""
    call = _object(payload)
    inner = next((call[name] for name in _ARGUMENTS if name in call), call)
    arguments = _object(inner) if isinstance(inner, str) else inner
    if not isinstance(arguments, dict):
        return ""
    values = (arguments.get(name) for name in _NAMES)
    texts = (value.strip() for value in values if isinstance(value, str))
    return next((text for text in texts if text and not is_placeholder(text)), "")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, so it is not a call
        return {}
    return value if isinstance(value, dict) else {}


# Statements in inline code: `SELECT name FROM singer`, with one backtick or two.

_LONGEST_INLINE = 10_000
_OPENING = re.compile(r"(?<!`)(`{1,2})(?=(?:select|with)\s)", re.IGNORECASE)
_RUN = re.compile(r"`++")
# Inside of a statement a backtick may also begin a name: `SELECT `name` FROM singer`.
_NAME = re.compile(r"(?<=[\s(,.=<>])`\w[^`\n]*+`")


def inline_statement(response: str) -> ExtractedSQL | None:
    """The last inline code that is a SELECT or WITH; backticks of its literals do not end it."""
    found: tuple[int, int, int] | None = None
    opening = _OPENING.search(response)
    while opening is not None:
        end = _end(response, opening.end(), len(opening[1]))
        if end is None:  # it is never closed, and so nothing after it is
            break
        found = opening.start(), opening.end(), end
        opening = _OPENING.search(response, end + len(opening[1]))
    if found is None:
        return None
    start, inside, end = found
    statement = response[inside:end].strip().rstrip(";").rstrip()
    return None if is_placeholder(statement) else ExtractedSQL(statement, response[:start])


def _end(response: str, start: int, width: int) -> int | None:
    """Begin of the run of backticks that closes the code, None if there is none."""
    response, position = response[: start + _LONGEST_INLINE], start
    while True:
        for token in tokenize(response, position):
            if token.text[0] == "`":
                break
            if token.kind is TokenKind.STRING and "\n" in token.text:
                return None
        else:
            return None
        run = _RUN.match(response, token.start)
        name = _NAME.match(response, token.start)
        if run is not None and len(run[0]) == width and name is None:
            return token.start
        position = name.end() if name is not None else token.start + len(run[0] if run else "`")


# Statements that stand in a text without any mark.

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


class SQLSource(StrEnum):
    """A place in a response where the statement may stand."""

    ANSWER = "answer"
    FENCED = "fenced"
    TOOL_CALL = "tool_call"
    BARE = "bare"


DEFAULT_SOURCES = tuple(SQLSource)
_LONGEST = 250_000


def extract_sql(
    response: str, sources: Sequence[SQLSource] = DEFAULT_SOURCES
) -> ExtractedSQL | None:
    """The SQL of a response by the module's rules, or None if there is none.

    Of a longer one the last 250,000 characters are searched: no answer takes more than a second.

    >>> extract_sql("steps: keep age > 20 ; SELECT name FROM singer ;").statement
    'SELECT name FROM singer'
    """
    thoughts, answer = read_turn(response)
    answer = answer[-_LONGEST:]
    found = next(filter(None, (_FINDERS[source](answer) for source in sources)), None)
    return ExtractedSQL(found.statement, thoughts + found.preamble) if found else None


def _answer(response: str) -> ExtractedSQL | None:
    for start, end in answer_spans(response):
        inside = response[start:end]
        found = fenced_statement(inside) or bare_statement(inside)
        if found is not None:
            return ExtractedSQL(found.statement, response[:start] + found.preamble)
    return None


_FINDERS: Mapping[SQLSource, Callable[[str], ExtractedSQL | None]] = MappingProxyType(
    {
        SQLSource.ANSWER: _answer,
        SQLSource.FENCED: fenced_statement,
        SQLSource.TOOL_CALL: tool_call_statement,
        SQLSource.BARE: bare_statement,
    }
)
