"""Copyright notices at the head of a file: the paragraphs of leading comments that make one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dph_corpus.packaged import packaged
from dph_corpus.signals.split import cut_lines


@dataclass(frozen=True, slots=True)
class CommentStyle:
    """Comments of languages: markers of a line, pairs around a block, and lines that are none."""

    languages: str
    lines: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()
    code: str = "(?!)"


@dataclass(frozen=True, slots=True)
class NoticeTable:
    """``notices.toml``: words of notices, comments of languages, lines that tools read."""

    notice: str
    sure: str
    between: str
    blocks: Sequence[str]
    readers: Mapping[str, str]
    styles: Sequence[CommentStyle]


_TABLE = packaged("transform/notices.toml", NoticeTable)
_NOTICE, _SURE = (
    re.compile(text, re.IGNORECASE | re.VERBOSE) for text in (_TABLE.notice, _TABLE.sure)
)
_BETWEEN = re.compile(_TABLE.between, re.IGNORECASE)
_MARK = r"\ufeff?[ \t]*(?:[#;%!*]+|\"[ ]|//+|--+|/\*+|<!--|\(\*|\{-|rem\b|::)[ \t]*"
_READ = re.compile(
    rf"^(?:{_MARK}(?:{'|'.join(_TABLE.readers.values())}).*|{'|'.join(_TABLE.blocks)})",
    re.IGNORECASE | re.MULTILINE,
)
_HEAD = re.compile(
    r"\ufeff?(?:#!|<\?xml|<\?php|<!doctype|#[ \t]*pragma\b|[\"']use (?:strict|client|server|asm))",
    re.IGNORECASE,
)
"""Lines before a notice that are no comment."""
_TAG = re.compile(r"[@\\][A-Za-z]")
"""A tag of Javadoc, JSDoc, phpDoc or Doxygen begins a paragraph of its own."""


STYLES = {name: style for style in _TABLE.styles for name in style.languages.split(", ")}
"""By language. Others keep their heads as they are."""


def without_notice(text: str, language: str) -> str:
    r"""``text`` without the copyright notice in its leading comments.

    Only comments before anything else are read, past lines that a program reads (``#!``,
    encodings, build tags). Paragraphs of such a comment from the first to the last that belong to
    a notice go; those around them stay.

    >>> without_notice("# Copyright 2020 A. Person\n# SPDX-...: MIT\n\nx = 1\n", "python")
    'x = 1\n'
    """
    style = STYLES.get(language)
    if style is None:
        return text
    start = _after_kept_head(text)
    while True:
        found = _next_comment(text, start, style)
        if found is None:
            return text
        begin, end, is_block = found
        rest = _trimmed(text[begin:end], style, is_block=is_block)
        if rest is None:
            start = end
            continue
        tail = text[end:] if rest else text[end:].lstrip("\r\n")
        text = text[:begin] + rest + tail
        start = begin + len(rest)


def _after_kept_head(text: str) -> int:
    place = 0
    while match := _HEAD.match(text, place) or _READ.match(text, place):
        line_end = text.find("\n", match.end())
        if line_end < 0:
            return len(text)
        place = line_end + 1
    return place


def _next_comment(text: str, start: int, style: CommentStyle) -> tuple[int, int, bool] | None:
    """The next comment, if only space stands before it.

    Returns:
        Where it begins, where its last line ends, and whether it is a block.
    """
    begin = start
    while (line_end := text.find("\n", begin)) >= 0 and not text[begin:line_end].strip(
        "\ufeff \t\r\f"
    ):
        begin = line_end + 1
    head = text[begin : begin + 200].lstrip("\ufeff \t")
    for opening, closing in style.blocks:
        if head.startswith(opening):
            inside = text.find(opening, begin) + len(opening)
            close = text.find(closing, inside)
            if close < 0 or opening in text[inside:close]:
                return None
            end = close + len(closing)
            line_end = text.find("\n", end)
            after = text[end : line_end if line_end >= 0 else len(text)]
            if after.strip():
                return None
            return begin, len(text) if line_end < 0 else line_end + 1, True
    end = begin
    while end < len(text):
        line_end = text.find("\n", end)
        stop = len(text) if line_end < 0 else line_end + 1
        line = text[end:stop].lstrip("\ufeff \t")
        other = line.startswith(tuple(pair[0] for pair in style.blocks))
        if other or not line.startswith(style.lines) or re.match(style.code, line):
            break
        end = stop
    return (begin, end, False) if end > begin else None


def _trimmed(comment: str, style: CommentStyle, *, is_block: bool) -> str | None:
    """``comment`` without the paragraphs of its notice; lines that something reads stay.

    Returns:
        '' if nothing else is in it, None if there is no notice.
    """
    lines = cut_lines(comment)
    read = _read_lines(comment, lines)
    words = [_words(line, style) for line in lines]
    paragraphs = _paragraphs(words, read)
    texts = [" ".join(words[i] for i in range(*p) if i not in read) for p in paragraphs]
    if not any(_SURE.search(text) for text in texts):
        return None
    notices = [i for i, text in enumerate(texts) if _NOTICE.search(text) or _SURE.search(text)]
    gone: set[int] = set()
    for index, (first, last) in enumerate(paragraphs):
        within = notices[0] < index < notices[-1] and _BETWEEN.search(texts[index])
        if index in notices or within:
            is_last = index + 1 == len(paragraphs)
            following = len(lines) if is_last else paragraphs[index + 1][0]
            gone.update(range(first if index else 0, max(last, following)))
    kept = [i for i in range(len(lines)) if i not in gone or i in read]
    if not kept:
        return ""
    rest = "".join(lines[i] for i in kept)
    if not is_block:
        return rest
    opening, closing = next(
        pair for pair in style.blocks if comment.lstrip("\ufeff \t").startswith(pair[0])
    )
    mark = re.match(rf"\s*{re.escape(opening)}\*?(?!\*)", lines[0].lstrip("\ufeff"))
    head = "" if kept[0] == 0 else (mark[0] if mark else opening) + _line_end(lines[0])
    foot = "" if kept[-1] == len(lines) - 1 else closing + _line_end(lines[-1])
    return head + rest + (" " if foot and closing == "*/" else "") + foot


def _read_lines(comment: str, lines: list[str]) -> set[int]:
    """Numbers of the lines that a tool reads."""
    spans = [match.span() for match in _READ.finditer(comment)]
    read, start = set(), 0
    for index, line in enumerate(lines):
        if any(begin < start + len(line) and start < end for begin, end in spans):
            read.add(index)
        start += len(line)
    return read


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _words(line: str, style: CommentStyle) -> str:
    """Text of a line of a comment."""
    bare = line.strip("\ufeff \t\r\n")
    for opening, closing in style.blocks:
        bare = bare.removeprefix(opening).removesuffix(closing)
    return bare.strip("\t *#/;%-=!_+|")


def _paragraphs(words: list[str], read: set[int]) -> list[tuple[int, int]]:
    """Runs of lines that say something, without those that are read: (first, one past the last)."""
    runs: list[tuple[int, int]] = []
    follows = False
    for index, text in enumerate(words):
        if index in read:
            continue
        if text and follows and not _TAG.match(text):
            runs[-1] = (runs[-1][0], index + 1)
        elif text:
            runs.append((index, index + 1))
        follows = bool(text)
    return runs
