import ast

import pytest

from dph_corpus.synth.seeds import impurity


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os.path", "imports os.path"),
        ("from subprocess import run", "imports subprocess"),
        ("from . import x", "imports ."),
        ("def f():\n    import socket", "imports socket"),
        ("def f():\n    eval('1')", "uses eval"),
        ("def f():\n    return ().__class__", "uses .__class__"),
        ("import collections\ndef f():\n    return collections._sys", "uses ._sys"),
        ("import datetime\ndef f():\n    return datetime.date.today()", "uses .today"),
        ("print(1)", "runs code when it is loaded: Expr"),
        ("while True:\n    pass", "runs code when it is loaded: While"),
        ("def f():\n    global x\n    x = 1", "has Global"),
        ("async def f():\n    pass", "runs code when it is loaded: AsyncFunctionDef"),
    ],
)
def test_what_reaches_outside_is_named(source, found):
    assert impurity(ast.parse(source)) == found


def test_functions_classes_and_constants_are_pure():
    source = '''
"""A module."""
from __future__ import annotations
import math
from collections import Counter

LIMIT = 3

class Point:
    def __init__(self, x):
        self._x = x

    def __eq__(self, other):
        return self._x == other._x

def f(x: int) -> float:
    return math.sqrt(Counter([x])[x])
'''
    assert impurity(ast.parse(source.lstrip())) == ""
