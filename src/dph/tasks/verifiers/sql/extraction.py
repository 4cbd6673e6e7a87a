"""Finding the SQL statement in a response.

Places of a turn's answer (dph.tasks.verifiers.turn) to look at, in the order given
(DEFAULT_SOURCES); the first that holds SQL decides:

1. ``answer``: the last ``<answer>`` element that holds SQL, fenced or bare. The last one may be
   left open.
2. ``fenced``: the last block fenced by ``` or ~~~ and marked ``sql`` (or a dialect) is the
   statement, as it is; without one, the last unmarked block that starts with SELECT or WITH. A
   last fence that is never closed counts. Backticks in a literal or a quoted name are no fence.
3. ``tool_call``: the last ``<tool_call>`` element, else the last object of JSON anywhere, of which
   a field that names SQL (``sql``, ``query``, ``statement`` and their like) holds it. A response
   that is one object and nothing else is looked at first of all.
4. ``bare``: a statement in the text: the last one that starts a line or follows ``;`` or ``:``,
   else the last in inline code, else the first SELECT or WITH anywhere. It ends at its first ``;``
   outside parentheses and literals, at a closing mark (``</sql>``, ``[/INST]``), and at the next
   label of a prompt's form (``SQLResult:`` at the beginning of a line). A SELECT that continues a
   statement (after UNION, or behind the list of a WITH) starts none. "with" as an English word
   starts none: a WITH is followed by a name and AS or columns.

What a prompt shows in place of an answer does not count as one: a block of nothing but comments
("-- Your SQL query"), of an ellipsis, or of words such as "your SQL query here".
"""

import contextlib
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
    """True if the text only says where SQL belongs.

    >>> is_placeholder("-- Your SQL query"), is_placeholder("<your SQL here>")
    (True, True)
    """
    if is_blank(text):
        return True
    return bool(_PLACEHOLDER.fullmatch(text) or _ELLIPSIS.fullmatch(text))


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


def fenced_statement(response: str) -> ExtractedSQL | None:
    """The last block marked as SQL, else the last unmarked one that starts with SELECT or WITH."""
    unmarked: ExtractedSQL | None = None
    for start, inside, end in reversed(list(_blocks(response))):
        mark = _MARK.match(response, inside, end)
        body = response[mark.end() if mark else inside : end].strip()
        if not body or is_placeholder(body):
            continue
        if mark and mark.group(1):
            return ExtractedSQL(body, response[:start])
        plain = mark is None or not mark.group(2)
        if unmarked is None and plain and first_word(body) in ("SELECT", "WITH"):
            unmarked = ExtractedSQL(body, response[:start])
    return unmarked


def _blocks(response: str) -> Iterator[tuple[int, int, int]]:
    """The fenced blocks from first to last: where each begins, where its inside does, its end.

    A fence is closed by the next one of its character, unless that one has ``sql`` attached: such
    a fence opens a block, whatever was left open before. Of a statement's literal, or of its quoted
    name, a run of backticks is a part and no fence.
    """
    opening: re.Match[str] | None = None
    quoted = _QuotedParts(response)
    for fence in _FENCE.finditer(response):
        if quoted.holds(fence, opening):
            continue
        if opening is None:
            opening = fence
            continue
        attached = _ATTACHED.match(response, fence.end()) is not None
        if fence.group().lstrip()[0] == opening.group().lstrip()[0] or attached:
            yield opening.start(), opening.end(), fence.start()
            opening = fence if attached else None
    if opening is not None:
        yield opening.start(), opening.end(), len(response)


class _QuotedParts:
    """The literals and quoted names of a response, which is read once for all of its fences."""

    def __init__(self, response: str) -> None:
        self._response = response
        self._spans = [match.span() for match in _LITERAL.finditer(response)]
        self._starts = [start for start, _ in self._spans]
        found = list(_SELECT_OR_LINE.finditer(response))
        self._marks = [match.start() for match in found]
        self._is_select = [match.group() != "\n" for match in found]

    def holds(self, fence: re.Match[str], opening: re.Match[str] | None) -> bool:
        """True if a fence stands in a literal of a statement: of the open block, or of its line."""
        place = bisect_right(self._starts, fence.start() - 1) - 1
        if place < 0 or self._spans[place][1] < fence.end():
            return False
        start = self._starts[place]
        if opening is not None:
            return start >= opening.end() and self._is_sql(opening.end())
        mark = bisect_right(self._marks, start) - 1
        return self._response[start] == "'" and mark >= 0 and self._is_select[mark]

    def _is_sql(self, body: int) -> bool:
        """True if a block is marked as SQL, or begins as SQL does."""
        mark = _MARK.match(self._response, body)
        if mark and mark.group(1):
            return True
        begin = mark.end() if mark else body
        return first_word(self._response[begin : begin + _FENCE_BEGINNING]) in ("SELECT", "WITH")


_ANSWER = re.compile(r"<(/?)answer>", re.IGNORECASE)
_TOOL_CALL = re.compile(r"<(/?)tool_call>", re.IGNORECASE)
# Names of fields, only in lower-case letters: of those that hold a statement, and of those
# that hold one if their text begins as one does.
_SQL_FIELD = re.compile(r"\w*sql(?:query|statement|code|string)?|query|statement")
_ANSWER_FIELD = re.compile(r"\w*(?:query|answer)|output|result|response|content|code|final")
_OBJECT = re.compile(r"\{\s*+\"")
# A field of what is almost JSON: a comma too many, the quotes of Python.
_LOOSE_FIELD = re.compile(
    r"""(["'])(\w{0,20}sql\w{0,20}|query|statement)\1\s*+:\s*+(\"""|["'])((?:(?!\3)[^\\]|\\.)++)\3""",
    re.IGNORECASE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MOST_OBJECTS, _DEEPEST = 100, 8
_DECODER = json.JSONDecoder(strict=False)


def answer_spans(response: str) -> list[tuple[int, int]]:
    """Positions of the insides of the ``<answer>`` elements, the last one first."""
    return list(_elements(_ANSWER, response))[::-1]


def tool_call_statement(response: str) -> ExtractedSQL | None:
    """The statement in the last tool call that has one, else in the last object of JSON."""
    for start, end in list(_elements(_TOOL_CALL, response))[::-1]:
        if statement := _field(_object(response[start:end])):
            return ExtractedSQL(statement, response[:start])
    for start, value in reversed(list(_objects(response))):
        statement = _field(value)
        if first_word(statement) in ("SELECT", "WITH"):
            return ExtractedSQL(statement, response[:start])
    for found in reversed(list(_LOOSE_FIELD.finditer(response))):
        statement = _ESCAPE.sub(lambda mark: " " if mark[1] in "nrt" else mark[1], found[4]).strip()
        if first_word(statement) in ("SELECT", "WITH"):
            return ExtractedSQL(statement, response[: found.start()])
    return None


def whole_object_statement(response: str) -> ExtractedSQL | None:
    """The statement of a response that is an object of JSON and nothing else."""
    alone = response.strip()
    if not (alone.startswith("{") and alone.endswith("}")):
        return None
    statement = _field(_object(alone))
    return ExtractedSQL(statement, "") if statement else None


def _elements(tag: re.Pattern[str], response: str) -> Iterator[tuple[int, int]]:
    """The insides of a tag's elements; an opening tag ends one that is still open."""
    start: int | None = None
    for match in tag.finditer(response):
        if start is not None:
            yield start, match.start()
        start = None if match.group(1) else match.end()
    if start is not None:
        yield start, len(response)


def _objects(response: str) -> Iterator[tuple[int, Any]]:
    """Places of the objects of JSON in a text, and what they are; those inside others are not."""
    end = 0
    for found in list(_OBJECT.finditer(response))[-_MOST_OBJECTS:]:
        if found.start() >= end:
            with contextlib.suppress(ValueError, RecursionError):  # braces of prose
                value, end = _DECODER.raw_decode(response, found.start())
                yield found.start(), value


def _field(value: Any, depth: int = 0) -> str:
    """The statement that a field of an object holds, or of the last object inside it; or ''."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict) or depth > _DEEPEST:
        return ""
    found: list[tuple[bool, bool, str]] = []  # the best is the least
    for name, each in value.items():
        letters = re.sub(r"[\W_]", "", str(name)).lower()
        named = _SQL_FIELD.fullmatch(letters) is not None
        if isinstance(each, str) and (named or _ANSWER_FIELD.fullmatch(letters)):
            fenced = fenced_statement(each)
            statement = fenced.statement if fenced else each.strip()
            statement = "" if is_placeholder(statement) else statement
            reads_like_one = first_word(statement) in ("SELECT", "WITH")
            if reads_like_one or (named and statement):
                found.append((not reads_like_one, "sql" not in letters, statement))
    if found:
        return min(found, key=lambda one: one[:2])[2]
    inner = [_object(each) if isinstance(each, str) else each for each in value.values()]
    return next(filter(None, (_field(each, depth + 1) for each in reversed(inner))), "")


def _object(text: str) -> Any:
    try:
        return _DECODER.decode(text.strip()) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):  # not JSON, so it is not a call
        return None


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


_WITH = re.compile(r"with\s++(?:recursive\s++)?[\w\"`\[][^\s(]*+\s*+(?:\(|as\b)", re.IGNORECASE)
_LABEL = re.compile(r"[A-Za-z]\w*+(?:[ \t]\w++){0,3}[ \t]*+:(?![:=])")
_CLOSING_MARK = re.compile(r"</\w|<\||\[/[A-Z]+\]|\*\*|##")
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
        elif (token.text == ")" and token.depth < depth) or (
            top_level and _ends_statement(token, response)
        ):
            end, awaits_select = min(end, token.start), False
        previous = token
    if not bounded and (inline := inline_statement(response)) is not None:
        return inline
    if start is None:
        return None
    statement = response[start:end].strip()
    return None if is_placeholder(statement) else ExtractedSQL(statement, response[:start])


def _ends_statement(token: Token, text: str) -> bool:
    """True if a statement is over before the token: at ``;``, a closing mark, a label of a form."""
    if token.kind is TokenKind.WORD:
        label = _LABEL.match(text, token.start)
        return label is not None and text[: token.start].rstrip(" \t")[-1:] == "\n"
    return token.text == ";" or _CLOSING_MARK.match(text, token.start) is not None


def _may_start(token: Token, previous: Token | None, text: str) -> bool:
    """True if the token is a SELECT or a real WITH that continues nothing before it."""
    if previous is not None and previous.word in _CONTINUES:
        return False
    is_with = token.word == "WITH" and _WITH.match(text, token.start) is not None
    return is_with or token.word == "SELECT"


def _on_boundary(token: Token, previous: Token | None, text: str) -> bool:
    """True if the token starts a line or follows ``;`` or ``:``."""
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
    finders = [_FINDERS[source] for source in sources]
    if SQLSource.TOOL_CALL in sources:
        finders.insert(0, whole_object_statement)
    found = next(filter(None, (find(answer) for find in finders)), None)
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
