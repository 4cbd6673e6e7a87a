"""A model's answer as an instruction, a program and tests.

Asked for are a task in words, a block of Python that solves it, and a block of assertions. The
program is the first block that defines a function, the tests are the first block after it whose
statements are assertions, and what stands before the program is the instruction.
"""

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Generic, TypeVar

# What became of an answer, whatever kind of row it was to be.

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftOutcome(Generic[T]):
    """Outcome of an answer; ``reason`` is '' if it is kept.

    Args:
        draft: what was read of it; None if nothing could be.
        reason: why it is dropped, a word that is counted.
        note: what was seen.
        killed: wrong ones of its ``mutants`` that were found out.
        mutants: programs or queries that are wrong in one place.
    """

    draft: T | None
    reason: str = ""
    note: str = ""
    killed: int = 0
    mutants: int = 0


_FENCE = re.compile(r"^```[ \t]*(\w*)[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(
    r"^\W*(instruction|task|question|problem)\W*:?\W*$|^\**(instruction|task|question|problem)\**:",
    re.IGNORECASE | re.MULTILINE,
)
_LONGEST = 100_000
_LEAST_TESTS, _MOST_TESTS = 3, 32
_DEEPEST = 100
"""Levels of a syntax tree. Python copies and prints trees by recursion, several frames a level."""


class NoDraft(ValueError):  # noqa: N818 - what is wrong with an answer, not with the package
    """An answer is none; the message says why, its first word is the reason that is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Draft of a model. Every test is one assertion about ``entry_point``."""

    instruction: str
    program: str
    tests: tuple[str, ...]
    entry_point: str

    def response(self) -> str:
        """The answer that a model is to learn: the program in a block."""
        return f"```python\n{self.program.strip()}\n```"

    def text(self) -> str:
        """The row as a file of Python: the task as comments, the program, its tests."""
        lines = [f"# {line}".rstrip() for line in self.instruction.splitlines()]
        return "\n".join([*lines, "", self.program.strip(), "", *self.tests, ""])


def read_draft(answer: str) -> Draft:
    """The draft of an answer."""
    blocks = list(_FENCE.finditer(answer[:_LONGEST]))
    program = next((block for block in blocks if _functions(block[2])), None)
    if program is None:
        raise NoDraft("program: no block of Python defines a function, or it is nested too deeply")
    instruction = _HEADING.sub("", answer[: program.start()]).strip()
    if not instruction:
        raise NoDraft("instruction: nothing stands before the program")
    after = [block[2] for block in blocks if block.start() > program.start()]
    tests = next((found for text in after if (found := _assertions(text))), [])
    if not _LEAST_TESTS <= len(tests) <= _MOST_TESTS:
        raise NoDraft(f"tests: {len(tests)} assertions, expected {_LEAST_TESTS} to {_MOST_TESTS}")
    functions = _functions(program[2])
    called = [name for name in functions if all(_calls(test, name) for test in tests)]
    if not called:
        raise NoDraft("entry_point: no function is called by every test")
    return Draft(
        instruction=instruction,
        program=program[2],
        tests=tuple(ast.unparse(test) for test in tests),
        entry_point=called[-1],
    )


def parsed(source: str) -> ast.Module | None:
    """The syntax tree of a program; None if it has none, or one deeper than ``_DEEPEST``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in its strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    depth, level = 0, list[ast.AST]([tree])
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return tree if depth <= _DEEPEST else None


def _functions(source: str) -> list[str]:
    tree = parsed(source)
    body = tree.body if tree else []
    return [node.name for node in body if isinstance(node, ast.FunctionDef)]


def _assertions(source: str) -> list[ast.Assert]:
    """The assertions of a block that holds nothing else, each once."""
    tree = parsed(source)
    if tree is None:
        return []
    found = {ast.dump(node): node for node in tree.body if isinstance(node, ast.Assert)}
    return list(found.values()) if all(isinstance(n, ast.Assert) for n in tree.body) else []


def _calls(test: ast.Assert, name: str) -> bool:
    calls = (node.func for node in ast.walk(test.test) if isinstance(node, ast.Call))
    return any(isinstance(func, ast.Name) and func.id == name for func in calls)
