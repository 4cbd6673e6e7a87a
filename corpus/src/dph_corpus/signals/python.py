"""Python: what its syntax tree says, and lines that hold a word.

Only statements are visited: functions, classes and assignments are nowhere else. ``async``
functions are neither functions nor documented here, as in the released filter.
"""

import ast
import gc
import inspect
import io
import re
import sys
import tokenize
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# Comments and doc strings of Python that parses, split from the rest without a lexer.
#
# Gives exactly what Pygments' Python lexer gives, some twenty times as fast, or None: then the
# caller lexes. What is a doc string is decided as that lexer does: any triple-quoted string that
# begins a line. The scanner only looks at ``#``, quotes and the beginnings of lines, and gives up
# where the lexer's reading of a string could depend on more (escaped quotes that end a doc
# string, f-strings with nested quotes or braces, soft keywords beside quotes).

_STOP = re.compile(r"""#.*|"{3}|'{3}|"|'""")
_BEFORE_DOC = re.compile(r"[^\S\n]*[rRuUbB]{,2}")
"""All that a line may hold before the quotes of a doc string."""

# In a string the lexer takes a replacement field as one piece, brackets and quotes in it included.
_FIELD = (
    r"\{(?:\w+(?:\.\w+|\[[^\]]+\])*)?(?:![sra])?"
    r"(?::(?:.?[<>=^])?[-+ ]?\#?0?\d*,?(?:\.\d+)?[E-GXb-gnosx%]?)?\}"
)


def _body(quote: str, *, formatted: bool, raw: bool) -> re.Pattern[str]:
    """The rest of a string after its opening quote; ``raw`` where a backslash escapes none."""
    mark, line = quote[0], "" if len(quote) == 3 else r"\n"
    other = "".join({'"', "'"} - {mark}) if line else "\"'"
    simple = rf"[^{{}}\"'\\{line or '#'}]" + "".join(rf" | {q}[^{q}{{}}\\\n]*{q}" for q in other)
    escaped = mark if line else "\"'"
    escape = r"\\" if raw else rf"\\[\\\n{escaped}]?"
    if formatted:
        nested = rf"\{{ (?: {simple} )*+ \}}"
        field = rf"\{{\{{ | \}} | \{{ (?: {simple} | {nested} )*+ \}}"
        literal = rf"[^{mark}\\{{}}{line}]+"
    else:
        field = rf"{_FIELD} | \{{{{1,2}}"
        literal = rf"[^{mark}\\{{{line}]+"
    lone = "" if line else rf" | {mark}(?!{mark}{mark})"
    return re.compile(rf"(?> {literal} | {escape} | {field} {lone} )*+ {quote}", re.VERBOSE)


_BODIES = {
    (quote, formatted, raw): _body(quote, formatted=formatted, raw=raw)
    for quote in ('"', "'", '"""', "'''")
    for formatted in (False, True)
    for raw in (False, len(quote) == 3 and not formatted)
}
_FORMATTED = re.compile(r"[ft]|r[ft]|[ft]r", re.IGNORECASE)
_RAW = re.compile(r"r[bft]?|[bft]r", re.IGNORECASE)
_PREFIX = re.compile(r"(?<!\w)[A-Za-z]{1,2}\Z")
_SOFT_KEYWORD = re.compile(r"""^[ \t]*(?:match|case)\b\s+[^\n_]*["'\#][^\n_]*_\b""", re.MULTILINE)


def split_python(text: str) -> tuple[str, list[str]] | None:
    """The code and the comments of Python ``text``, or None where only a lexer can tell.

    Args:
        text: as a lexer reads it: line ends are a newline, no blank lines at either end. It must
            parse.

    Returns:
        The text without comments and doc strings, and each of those, ``#`` and quotes included.
    """
    if ("match" in text or "case" in text) and _SOFT_KEYWORD.search(text):
        return None
    code, comments, last = [], [], 0
    for start, end in _pieces(text):
        if end < 0:
            return None
        code.append(text[last:start])
        comments.append(text[start:end])
        last = end
    code.append(text[last:])
    return "".join(code), comments


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Begin and end of the comments and doc strings; an end of -1 gives up."""
    place = 0
    while found := _STOP.search(text, place):
        (start, place), piece = found.span(), found[0]
        if piece[0] == "#":
            yield start, place
        elif len(piece) == 3 and _BEFORE_DOC.fullmatch(text, text.rfind("\n", 0, start) + 1, start):
            place = text.find(piece, place) + 3
            if place < 3 or text[place - 4] == "\\":
                yield start, -1
                return
            yield start, place
        else:
            place = _string_end(text, start, piece)
            if place < 0:
                yield start, -1
                return


def _string_end(text: str, start: int, quote: str) -> int:
    """End of the string that opens at ``start``, or -1."""
    if quote == text[start + 1 : start + 2]:
        return start + 2  # empty, for three quotes would have been found as such
    found = _PREFIX.search(text, max(0, start - 2), start)
    prefix = found[0] if found else ""  # or a keyword, such as "in"
    formatted = bool(_FORMATTED.fullmatch(prefix))
    raw = len(quote) == 3 and bool(_RAW.fullmatch(prefix))
    body = _BODIES[quote, formatted, raw and not formatted].match(text, start + len(quote))
    if body is None or (raw and formatted and "\\" in body[0]):
        return -1
    return body.end()


_NESTING = 10_000
"""Frames that the parser may nest, as in the released filter."""
_RETURN = re.compile(r"^[^\S\n]*return(\s+.+)?\s*$", re.MULTILINE)
_PLAIN = (ast.Name, ast.Attribute, ast.Constant)
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@dataclass(frozen=True, slots=True)
class PythonFacts:
    """Counts over the statements of a module."""

    functions: int
    classes: int
    one_line_returns: int
    """Functions whose whole body is a return."""
    has_variable: bool
    """A plain name is assigned by ``=``, is the target of ``for`` or a positional argument."""
    class_attributes: int
    """Plain names assigned in classes that lie in no other class."""
    plain_returns: int
    """Returns of nothing, a name, an attribute or a constant."""
    docstrings: tuple[str, ...]
    """Cleaned: classes', functions' and the module's, each kind by name."""


def parse_python(text: str) -> ast.Module | None:
    """The syntax tree, or None if ``text`` is not Python of the running version."""
    try:
        with deep_recursion(), _no_collection(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def python_facts(tree: ast.Module) -> PythonFacts:
    """Count what ``tree`` defines."""
    functions = classes = returns = attributes = plain = 0
    has_variable = False
    documented: list[tuple[str, str, str]] = []
    for node, in_class in _statements(tree):
        if isinstance(node, ast.FunctionDef):
            functions += 1
            returns += len(node.body) == 1 and isinstance(node.body[0], ast.Return)
            has_variable = has_variable or bool(node.args.args)
            documented.append(("function", node.name, _docstring(node)))
        elif isinstance(node, ast.ClassDef):
            classes += 1
            attributes += 0 if in_class else _assigned_names(node)
            documented.append(("class", node.name, _docstring(node)))
        elif isinstance(node, ast.Assign):
            has_variable = has_variable or any(isinstance(t, ast.Name) for t in node.targets)
        elif isinstance(node, ast.For):
            has_variable = has_variable or isinstance(node.target, ast.Name)
        elif isinstance(node, ast.Return):
            plain += node.value is None or isinstance(node.value, _PLAIN)
    documented.append(("module", "", _docstring(tree)))
    documented.sort(key=lambda entry: entry[:2])
    docstrings = tuple(text for _, _, text in documented if text)
    return PythonFacts(functions, classes, returns, has_variable, attributes, plain, docstrings)


def prose_length(text: str, facts: PythonFacts | None, pieces: tuple[str, ...] | None) -> int:
    """Characters of doc strings and comments, ``#`` left out and each doc string on lines apart.

    ``pieces`` are the comments where they are known; else they are looked for by ``tokenize``, and
    if that fails there are none.
    """
    if pieces is None or "\r" in text.replace("\r\n", "\n"):
        comments = _tokenized_comments(text)
    else:
        comments = "".join(piece for piece in pieces if piece.startswith("#"))
    docstrings = "\n".join(facts.docstrings) if facts else ""
    return len((docstrings + "\n" + comments.replace("#", "")).strip())


def count_returns(code: str) -> int:
    """Lines that are a return, whatever is returned."""
    return len(_RETURN.findall(code)) if "return" in code else 0


def _statements(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement, breadth first, and whether it lies in a class."""
    queue: deque[tuple[ast.AST, bool]] = deque([(tree, False)])
    while queue:
        parent, in_class = queue.popleft()
        inside = in_class or isinstance(parent, ast.ClassDef)
        for block in _BLOCKS:
            for node in getattr(parent, block, ()):
                yield node, inside
                if hasattr(node, "body") or hasattr(node, "cases"):
                    queue.append((node, inside))


def _assigned_names(node: ast.ClassDef) -> int:
    count = 0
    for item in node.body:
        if isinstance(item, ast.Assign):
            count += sum(isinstance(target, ast.Name) for target in item.targets)
        elif isinstance(item, ast.AnnAssign):
            count += isinstance(item.target, ast.Name)
    return count


def _docstring(node: ast.FunctionDef | ast.ClassDef | ast.Module) -> str:
    text = ast.get_docstring(node, clean=False)
    return inspect.cleandoc(text) if text else ""


def _tokenized_comments(text: str) -> str:
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return "".join(token.string for token in tokens if token.type == tokenize.COMMENT)
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return ""


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector: thousands of new nodes would start it for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Let parsers nest as deeply as in the released filter."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _NESTING))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
