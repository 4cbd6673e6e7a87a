"""Whether a program is self-contained: nothing but functions, classes and constants.

A kept row has to give the same result whenever and wherever it is run, so what reaches outside of a
program (files, processes, clocks, chance) or around Python (``eval``, names with two underscores)
is refused before anything is run. The sandbox holds what gets past this.
"""

import ast
from collections.abc import Collection, Iterator

_PURE = """
    __future__ abc array base64 binascii bisect cmath collections colorsys copy dataclasses datetime
    decimal difflib enum fnmatch fractions functools hashlib heapq html itertools json keyword math
    numbers operator re statistics string struct textwrap types typing unicodedata zlib
"""
PURE_MODULES = frozenset(_PURE.split())
"""Modules of the standard library that reach nothing outside of the program."""

_REFUSED = """
    eval exec compile open input breakpoint globals locals vars getattr setattr delattr memoryview
    __import__ __builtins__ __loader__ __file__ id hash exit quit help print
"""
_REFUSED_NAMES = frozenset(_REFUSED.split())
_REFUSED_ATTRIBUTES = frozenset({"now", "today", "utcnow", "fromtimestamp"})
_STATEMENTS = (
    ast.FunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Assign,
    ast.AnnAssign,
)


def impurity(tree: ast.Module, *, modules: Collection[str] = PURE_MODULES) -> str:
    """The first thing that keeps a program from being self-contained; '' if nothing does.

    >>> impurity(ast.parse("import os"))
    'imports os'
    """
    return next(_impurities(tree, modules), "")


def _impurities(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    for place, statement in enumerate(tree.body):
        doc_string = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not isinstance(statement, _STATEMENTS) and not (doc_string and place == 0):
            yield f"does something when it is loaded: {type(statement).__name__}"
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (
                    f"imports {name.name}"
                    for name in names
                    if name.name.partition(".")[0] not in modules
                )
            case ast.ImportFrom(module=module, level=level):
                if level or (module or "").partition(".")[0] not in modules:
                    yield f"imports {'.' * level}{module or ''}"
            case ast.Name(id=name) if name in _REFUSED_NAMES:
                yield f"uses {name}"
            case ast.Attribute(attr=name) if name in _REFUSED_ATTRIBUTES or _is_hidden(node):
                yield f"uses .{name}"
            case ast.Global() | ast.Nonlocal() | ast.Await() | ast.AsyncFunctionDef():
                yield f"has {type(node).__name__}"


def _is_hidden(node: ast.Attribute) -> bool:
    """Whether an attribute is private to something else than the object whose method this is."""
    own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "other")
    return node.attr.startswith("__" if own else "_")
