"""The text of a program, made of an answer and what the task has before it.

Runs where the program runs: to parse hostile text is work for a process that may die.
"""

import ast
import re

_STOPS = re.compile(r"\n(?:(?:class|def|if|print|assert|import|from)\b|#|@|```)")
"""Ends of a continuation; class, def, #, if and print are arXiv:2107.03374's, section 2.1."""


def whole_source(code: str, prefix: str, entry_point: str) -> str:
    r"""The program: ``prefix`` and an answer that continues it, or the answer alone.

    An answer that begins with an indented line continues the prefix, up to the first line that
    starts something new. Any other is a program that follows the prefix, so that what the
    prefix imports is there; without its stub of ``entry_point``, where the answer has none, the
    name stays undefined.

    >>> whole_source("    return 1\n\nprint(f())", "def f():\n", "f")
    'def f():\n    return 1\n'
    """
    if not prefix:
        return code
    first = next((line for line in code.splitlines() if line.strip()), "")
    last, name = prefix.rpartition("\n")[2], re.escape(entry_point)
    own = rf"^(?:(?:(?:async )?def|class) {name}\b|{name} *[:=])"
    is_cut = last.isspace() or (last and completed(prefix) != prefix)
    if first[:1].isspace() or (is_cut and not re.search(own, code, re.MULTILINE)):
        stop = _STOPS.search(code)
        rest = code[: stop.start()] if stop else code
        start = prefix.rstrip(" \t") if first[:1].isspace() else prefix
        return f"{start}{'' if not last.strip() or _compiles(start + rest) else chr(10)}{rest}"
    return f"{prefix_alone(prefix, entry_point)}\n{code}"


def completed(prefix: str) -> str:
    """The beginning of a program as one that compiles, with ``pass`` for a body that is missing.

    What cannot be completed stays what it is.
    """
    endings = ("", f"\n{' ' * 80}pass\n", '"""', "'''")
    return next((prefix + each for each in endings if _compiles(prefix + each)), prefix)


def _compiles(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def prefix_alone(prefix: str, entry_point: str) -> str:
    """The prefix without the function that the answer must define."""
    prefix = completed(prefix)
    if not _compiles(prefix):  # the answer must bring everything
        return ""
    tree = ast.parse(prefix)
    lines = prefix.splitlines()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry_point:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            for index in range(first - 1, node.end_lineno or node.lineno):
                lines[index] = ""
    return "\n".join(lines)
