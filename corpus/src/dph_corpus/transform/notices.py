"""Copyright notices at the head of a file: the paragraphs of leading comments that make one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dph_corpus.signals.split import cut_lines

_NOTICE = re.compile(
    r"""copyright|\(c\)\s*(?:19|20)\d\d|©|licen[cs]ed?\b|SPDX-|all\s+rights\s+reserved
    |permission\s+(?:is|to\s+use)|redistributions?\s+(?:and|of|in)
    |without\s+warrant|warranties\s+of|["']as[\s-]is["']|liable\s+for|hold(?:er|s)?\s+harmless
    |free\s+software|general\s+public|www\.gnu\.org|apache\.org/licenses|opensource\.org
    |@license|@copyright|fsf\.org|neither\s+the\s+name|endorse\s+or\s+promote|in\s+no\s+event
    |this\s+(?:copyright\s+)?notice|disclaims?\b|merchantab|must\s+not\s+be\s+misrepresented
    |altered\s+source|may\s+not\s+use\s+this\s+file|unless\s+required\s+by\s+applicable""",
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
_BETWEEN = re.compile(
    r"(?:authors?|contributors?|maintainers?)(?:\(s\))?\s*:|original code|initial developer", re.I
)
"""Words of a paragraph that belongs to the notices on both of its sides."""
_MARK = r"\ufeff?[ \t]*(?:[#;%!*]+|\"[ ]|//+|--+|/\*+|<!--|\(\*|\{-|rem\b|::)[ \t]*"
READERS: Mapping[str, str] = {
    # reader: lines, after the marker of a comment
    "editors": r".*-\*-.*-\*-|-\*-|.*\b(?:vim?|ex):[ \t]*(?:set?\b|\w+[=:])",
    "encodings": r".*coding[:=]",
    "Python": r"(?:mypy|pyright|pytype|pylint|flake8|ruff|isort|fmt|yapf|black|bandit"
    r"|coverage|pragma|type|doctest|codespell|cspell\w*|sphinx_gallery_\w+)[ \t]*:|noqa\b|nosec\b"
    r"|(?:cython|distutils)[ \t]*:|pyre-|autopep8:|(?<=# )%%|databricks notebook|(?-i:MAGIC)\b",
    "JavaScript": r"@(?:ts-|flow|noflow|jsx\w*|format|(?:jest|vitest)-environment|deno-types)"
    r"|(?:eslint|jshint|jslint|stylelint|istanbul|c8|v8|oxlint|biome-|deno-|prettier-|webpack)"
    r"|tslint:|(?<=/\* )globals?[: ]|<(?:reference|amd-)|[#@][ \t]*source(?:MappingURL|URL)=",
    "Go": r"go:\w|\+build\b|lint:|(?<=//)(?:export|line)[ ]|\+\w+:|code generated .* do not edit",
    "C, Swift": r"swift(?:-tools-version|lint|format)\b|sourcery:"
    r"|clang-(?:format|tidy)|nolint|iwyu\b|cppcheck-|\{ dg-|(?:run|requires|check[\w-]*):",
    "Java, Kotlin, Scala": r"noinspection|checkstyle|@formatter|scalastyle|scalafmt|scalafix|ktlint"
    r"|> using\b|(?-i:DEPS|JAVA|REPOS)[ ]|usr/bin/env",
    "C#, Dart, PHP": r"</?auto-generated|resharper|stylecop|@dart\b|ignore(?:_for_file)?:"
    r"|phpcs:|@(?:phpstan-|psalm-|codingstandards|phpcs)",
    "Ruby": r"(?:frozen_string_literal|warn_indent|shareable_constant_value|typed|rubocop|sorbet"
    r"|steep|rbs_inline|simplecov|standard)[ \t]*:",
    "shells": r"shellcheck\b|compdef\b|autoload\b|sbatch\b|pbs\b|bsub\b|\$[ \t]-|chkconfig:"
    r"|(?:provide|keyword):|requires[ \t]-",
    "Docker, YAML, TOML": r"(?:escape|syntax|check)=|hadolint\b|cloud-config|jinja2:|[:$]schema\b"
    r"|(?:yaml-language-server|renovate|checkov|kics-scan|tflint-ignore|tfsec|trivy|dialyzer)\b"
    r"|yamllint\b|ansible-lint|@(?:data|ytt|overlay)",
    "SQL": r"liquibase\b|changeset\b|\+(?:goose|migrate)\b|name:[ \t]*\w+[ \t]*:|sqlfluff|dbmate",
    "Haskell, Lua, Perl, Elixir, R": r"\#[ \t]*[A-Z_]+\b.*\#-\}|stack\b.*script|hlint|luacheck:"
    r"|@diagnostic|!(?:non)?strict\b|(?:stylua|selene|credo|buildifier):|no critic|perltidy|nolint",
    "TeX, MATLAB, Erlang, Fortran": r"!tex\b|&\w+$|arara:|chktex|\#(?:codegen|ok)\b"
    r"|\$(?:omp|acc)\b|(?:dir|dec|gcc)\$|f2py\b",
    "hardware": r"(?:synthesis|synopsys|pragma|verilator|verible)[ \t]",
}
"""Lines of comments that a tool reads: without them a file means something else."""
_BLOCKS = (
    r"\#[ ]///[ ][A-Za-z0-9-]+[ \t]*\r?\n(?:\#(?:[ ].*)?\n)*?\#[ ]///",  # PEP 723
    r"\#[ ]---[ \t]*\r?\n\#[ ]+jupy(?:ter|text):.*\n(?:\#.*\n)*?\#[ ]---",  # jupytext
    r"//[ \t]*==UserScript==.*\n(?://.*\n)*?//[ \t]*==/UserScript==",
    r"\#+[ ]BEGIN[ ]INIT[ ]INFO.*\n(?:\#.*\n)*?\#+[ ]END[ ]INIT[ ]INFO",
)
_READ = re.compile(
    rf"^(?:{_MARK}(?:{'|'.join(READERS.values())}).*|{'|'.join(_BLOCKS)})",
    re.IGNORECASE | re.MULTILINE,
)
_HEAD = re.compile(
    r"\ufeff?(?:#!|<\?xml|<\?php|<!doctype|#[ \t]*pragma\b|[\"']use (?:strict|client|server|asm))",
    re.IGNORECASE,
)
"""Lines before a notice that are no comment."""
_TAG = re.compile(r"[@\\][A-Za-z]")
"""A tag of Javadoc, JSDoc, phpDoc or Doxygen begins a paragraph of its own."""


@dataclass(frozen=True, slots=True)
class CommentStyle:
    """Comments of a language: markers of a line, and pairs around a block."""

    lines: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()


_NAMES: Mapping[CommentStyle, str] = {
    CommentStyle(
        ("//",), (("/*", "*/"),)
    ): "c, cpp, csharp, java, javascript, typescript, tsx, jsx, go, rust, swift, kotlin, scala, "
    "groovy, dart, objective-c, objective-c++, cuda, solidity, zig, scss, less, d, glsl, hlsl, "
    "verilog, systemverilog, vala, haxe, gradle, thrift, protocol buffer",
    CommentStyle(
        ("#",)
    ): "python, ruby, perl, shell, bash, yaml, toml, r, julia, makefile, cmake, dockerfile, "
    "tcl, elixir, nim, powershell, awk, crystal, starlark, cython, meson, coffeescript, hcl",
    CommentStyle((), (("<!--", "-->"),)): "html, xml, vue, svelte, xslt, jsp",
    CommentStyle((";",), (("#|", "|#"),)): "clojure, common lisp, emacs lisp, scheme, racket",
    CommentStyle(("%",)): "tex, erlang, matlab, prolog",
    CommentStyle(("--",)): "ada, vhdl, elm",
    CommentStyle((), (("(*", "*)"),)): "ocaml, standard ml, coq",
    CommentStyle((), (("/*", "*/"),)): "css",
    CommentStyle(("--",), (("/*", "*/"),)): "sql, plsql",
    CommentStyle(("--",), (("--[[", "]]"),)): "lua",
    CommentStyle(("--",), (("{-", "-}"),)): "haskell",
    CommentStyle(("//", "#"), (("/*", "*/"),)): "php",
    CommentStyle((";", "#")): "ini",
    CommentStyle((";", "#", "//"), (("/*", "*/"),)): "assembly",
    CommentStyle(("!",)): "fortran",
    CommentStyle(("::", "rem ", "REM ", "@rem ", "@REM ")): "batchfile",
    CommentStyle(('"',)): "vim script",
}
STYLES = {name: style for style, names in _NAMES.items() for name in names.split(", ")}
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
