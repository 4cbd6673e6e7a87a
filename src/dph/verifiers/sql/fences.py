"""Statements in fenced blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dph.verifiers.sql.found_statement import ExtractedSQL, is_placeholder
from dph.verifiers.sql.tokens import first_word

# Tildes fence only at the start of a line: in a line they strike out, or say "about".
_FENCE = re.compile(r"`{3,}+|(?:(?<=\n)|(?<![\s\S]))[ \t]*+~{3,}+")
_DIALECT = r"(?:sql(?:ite)?3?|mysql|postgres(?:ql)?|psql|tsql)"
_ATTACHED = re.compile(rf"{_DIALECT}\b", re.IGNORECASE)
_MARK = re.compile(rf"[ \t]*+(?:({_DIALECT})\b|([\w+.-]*+)[ \t]*+(?=\r?\n|$))", re.IGNORECASE)


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
    a fence opens a block, whatever was left open before.
    """
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(response):
        if opening is None:
            opening = fence
            continue
        attached = _ATTACHED.match(response, fence.end()) is not None
        if fence.group().lstrip()[0] == opening.group().lstrip()[0] or attached:
            yield _Block(opening.start(), opening.end(), fence.start())
            opening = fence if attached else None
    if opening is not None:
        yield _Block(opening.start(), opening.end(), len(response))
