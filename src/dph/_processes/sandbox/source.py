"""The text of a program out of an answer and what the task has before it.

Runs where the program runs: to parse hostile text is work for a process that may die.
"""

import ast
import re

_STOPS = re.compile(r"\n(?:(?:class|def|if|print|assert|import|from)\b|#|@|```)")
"""Where a continuation ends; class, def, #, if and print are arXiv:2107.03374's, section 2.1."""


def whole_source(code: str, prefix: str, entry_point: str) -> str:
    r"""The program: ``prefix`` and an answer that goes on with it, or stands for itself.

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
    if first[:1].isspace():
        stop = _STOPS.search(code)
        return prefix.rstrip(" \t") + (code[: stop.start()] if stop else code)
    return f"{prefix_alone(prefix, entry_point)}\n{code}"


def prefix_alone(prefix: str, entry_point: str) -> str:
    """The prefix without the function that the answer has to define."""
    try:
        tree = ast.parse(prefix)
    except SyntaxError:  # a stub without a body, say: the answer has to bring everything
        return ""
    lines = prefix.splitlines()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry_point:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            for index in range(first - 1, node.end_lineno or node.lineno):
                lines[index] = ""
    return "\n".join(lines)
