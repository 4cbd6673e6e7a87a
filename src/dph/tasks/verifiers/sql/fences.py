"""Statements in fenced blocks."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from dph.tasks.verifiers.sql.found_statement import ExtractedSQL, is_placeholder
from dph.tasks.verifiers.sql.tokens import first_word

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
_WORDS = 1000


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
        return first_word(self._response[begin : begin + _WORDS]) in ("SELECT", "WITH")
