"""Copyright notices at the head of a file: the paragraphs of leading comments that make one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dph.corpus.signals.split import cut_lines

_NOTICE = re.compile(
    r"""copyright|\(c\)\s*(?:19|20)\d\d|©|licen[cs]ed?\b|SPDX-|all\s+rights\s+reserved
    |permission\s+is\s+hereby|permission\s+to\s+use,\s+copy|redistributions?\s+(?:and|of|in)
    |without\s+warrant|warranties\s+of|"as\s+is"|liable\s+for|hold(?:er|s)?\s+harmless
    |free\s+software|general\s+public|www\.gnu\.org|apache\.org/licenses|opensource\.org
    |@license|@copyright|fsf\.org""",
    re.IGNORECASE | re.VERBOSE,
)
_SURE = re.compile(
    r"""copyright\s+(?:\(c\)|©|&copy;|\d{4}|by\s|the\s|[A-Z]\w+)|\(c\)\s*(?:19|20)\d\d|©\s*(?:19|20)\d\d
    |(?:19|20)\d\d\S*\s+copyright|SPDX-|all\s+rights\s+reserved|licen[cs]ed\s+(?:under|to)
    |permission\s+is\s+hereby|permission\s+to\s+use,\s+copy|redistribution\s+and\s+use
    |under\s+the\s+terms\s+of|licen[cs]e:|@license""",
    re.IGNORECASE | re.VERBOSE,
)
"""Words that one of the paragraphs must hold for the others to count as well: a comment may speak
of licences without being one."""
_KEPT_HEAD = re.compile(
    r"\ufeff?(?:#!|<\?xml|<\?php|<!doctype|[#%/\s;*\"'-]*-\*-|#.*coding[:=]|//go:build|// \+build"
    r"|#\s*(?:frozen_string_literal|syntax=)|[\"']use strict)",
    re.IGNORECASE,
)
"""Lines before a notice that something reads: interpreters, encodings, build tags."""


@dataclass(frozen=True, slots=True)
class CommentStyle:
    """Comments of a language: markers of a line, and pairs around a block."""

    lines: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()


_C = CommentStyle(("//",), (("/*", "*/"),))
_HASH = CommentStyle(("#",))
_MARKUP = CommentStyle((), (("<!--", "-->"),))
_LISP = CommentStyle((";",), (("#|", "|#"),))
_PERCENT = CommentStyle(("%",))
_DASHES = CommentStyle(("--",))
_ML = CommentStyle((), (("(*", "*)"),))

STYLES: Mapping[str, CommentStyle] = (
    dict.fromkeys(
        [
            "c",
            "cpp",
            "csharp",
            "java",
            "javascript",
            "typescript",
            "tsx",
            "jsx",
            "go",
            "rust",
            "swift",
            "kotlin",
            "scala",
            "groovy",
            "dart",
            "objective-c",
            "objective-c++",
            "cuda",
            "solidity",
            "zig",
            "scss",
            "less",
            "d",
            "glsl",
            "hlsl",
            "verilog",
            "systemverilog",
            "vala",
            "haxe",
            "gradle",
            "thrift",
        ],
        _C,
    )
    | {"protocol buffer": _C, "css": CommentStyle((), (("/*", "*/"),))}
    | dict.fromkeys(
        [
            "python",
            "ruby",
            "perl",
            "shell",
            "bash",
            "yaml",
            "toml",
            "r",
            "julia",
            "makefile",
            "cmake",
            "dockerfile",
            "tcl",
            "elixir",
            "nim",
            "powershell",
            "awk",
            "crystal",
            "starlark",
            "cython",
            "meson",
            "coffeescript",
            "hcl",
        ],
        _HASH,
    )
    | dict.fromkeys(["html", "xml", "vue", "svelte", "xslt", "jsp"], _MARKUP)
    | dict.fromkeys(("clojure", "common lisp", "emacs lisp", "scheme", "racket"), _LISP)
    | dict.fromkeys(("tex", "erlang", "matlab", "prolog"), _PERCENT)
    | dict.fromkeys(("ada", "vhdl", "elm"), _DASHES)
    | dict.fromkeys(("ocaml", "standard ml", "coq"), _ML)
    | {
        "sql": CommentStyle(("--",), (("/*", "*/"),)),
        "plsql": CommentStyle(("--",), (("/*", "*/"),)),
        "lua": CommentStyle(("--",), (("--[[", "]]"),)),
        "haskell": CommentStyle(("--",), (("{-", "-}"),)),
        "php": CommentStyle(("//", "#"), (("/*", "*/"),)),
        "ini": CommentStyle((";", "#")),
        "assembly": CommentStyle((";", "#", "//"), (("/*", "*/"),)),
        "fortran": CommentStyle(("!",)),
        "batchfile": CommentStyle(("::", "rem ", "REM ", "@rem ", "@REM ")),
        "vim script": CommentStyle(('"',)),
    }
)
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
    while _KEPT_HEAD.match(text, place):
        line_end = text.find("\n", place)
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
            if close < 0:
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
        if not text[end:stop].lstrip("\ufeff \t").startswith(style.lines or ("\0",)):
            break
        end = stop
    return (begin, end, False) if end > begin else None


def _trimmed(comment: str, style: CommentStyle, *, is_block: bool) -> str | None:
    """``comment`` without the paragraphs of its notice; lines that something reads stay.

    Returns:
        '' if nothing else is in it, None if there is no notice.
    """
    lines = cut_lines(comment)
    words = [_words(line, style) for line in lines]
    paragraphs = _paragraphs(words)
    texts = [" ".join(words[first:last]) for first, last in paragraphs]
    if not any(_SURE.search(text) for text in texts):
        return None
    is_notice = [bool(_NOTICE.search(text) or _SURE.search(text)) for text in texts]
    first = is_notice.index(True)
    last = len(is_notice) - 1 - is_notice[::-1].index(True)
    if first == 0 and last == len(paragraphs) - 1:
        return "" if is_block else "".join(line for line in lines if _KEPT_HEAD.match(line))
    begin = paragraphs[first][0] if first else 0
    end = paragraphs[last + 1][0] if last + 1 < len(paragraphs) else len(lines)
    if not is_block:
        kept = [line for line in lines[begin:end] if _KEPT_HEAD.match(line)]
        return "".join(lines[:begin] + kept + lines[end:])
    opening, closing = next(
        pair for pair in style.blocks if comment.lstrip("\ufeff \t").startswith(pair[0])
    )
    head, foot = lines[:begin], lines[end:]
    if not head:
        head = [opening + _line_end(lines[0])]
    if not foot:
        foot = [(" " if closing == "*/" else "") + closing + _line_end(lines[-1])]
    return "".join(head + foot)


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _words(line: str, style: CommentStyle) -> str:
    """Text of a line of a comment."""
    bare = line.strip("\ufeff \t\r\n")
    for opening, closing in style.blocks:
        bare = bare.removeprefix(opening).removesuffix(closing)
    return bare.strip("\t *#/;%-=!_+|")


def _paragraphs(words: list[str]) -> list[tuple[int, int]]:
    """Runs of lines that say something: (first, one past the last)."""
    runs: list[tuple[int, int]] = []
    for index, text in enumerate(words):
        if not text:
            continue
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs
