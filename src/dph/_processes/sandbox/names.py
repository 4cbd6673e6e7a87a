"""The global names of a task's tests: their own, Python's, the task's, and the program's."""

import ast
import builtins
import random
import re
import sys
import types
import typing
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dph._processes.sandbox.checks import SOLUTION_MODULES, asserts
from dph._processes.sandbox.pytest_stand_in import stand_in
from dph._processes.sandbox.remote import Remote, RemoteProgram

# The text of a program out of an answer and what the task has before it.
#
# Runs where the program runs: to parse hostile text is work for a process that may die.

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


_USUAL_NAMES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "sp": "scipy"}
_USUAL_SOURCES = ("math", "itertools", "collections", "functools", "typing", "re", "random")
"""Modules whose names tests often forget to import."""


class TaskError(Exception):
    """The task's own code does not work."""


class TestNames(dict[str, Any]):
    """Origin of names that the tests lack: Python's, the task's, or else the program's.

    A name that tests forget to import is never the program's where Python or an installed package
    has it: ``isclose`` is that of ``math``. Where the task says what is called (``entry_point``),
    the program brings that alone, and its classes (``Point``) and constants (``LIMIT``).
    """

    __test__ = False  # no class of tests, whatever its name

    def __init__(self, program: RemoteProgram, entry_point: str, prefix: str) -> None:
        super().__init__({"__name__": "__main__", "__builtins__": builtins})
        self._program = program
        self._entry_point, _, self._method = entry_point.partition(".")
        self._of_prefix = _Prefix(prefix, self._entry_point)
        self.functions: set[str] = set()
        self._of_python: set[str] = set()

    @property
    def shadowed(self) -> str:
        """End of a message: names that the program has, and that the tests took from Python."""
        names = sorted(self._of_python & self._program.names)
        if not names or self._entry_point:
            return ""
        return f": {', '.join(names)} means Python's own unless entry_point names the program's"

    def __missing__(self, name: str) -> Any:
        if self._entry_point and name in ("candidate", self._entry_point):
            named = self._program.named(self._entry_point)
            is_method = self._method and name == "candidate"
            return getattr(named(), self._method) if is_method else named
        if hasattr(builtins, name):
            raise KeyError(name)
        if (found := usual(name)) is not None:
            self._of_python.add(name)
            return found
        if name not in self._program.names:
            raise KeyError(name)
        if name in self._of_prefix:
            return self._of_prefix[name]
        return self._theirs(name)

    def _theirs(self, name: str) -> Any:
        """A name of the program's that nobody else has."""
        is_class = name in self._program.classes and name[:1].isupper()
        if self._entry_point and not is_class and not name.isupper():
            raise TaskError(f"the tests use {name}, which neither they nor their setup define")
        value = self._program.constant(name)
        if not is_class and callable(value):
            self.functions.add(name)
        return self._program.named(name) if callable(value) else value

    def require_one_function(self, truths: frozenset[str]) -> None:
        """Refuse tests in which one of several functions of the program says whether all is right.

        Raises:
            TaskError: names it.
        """
        deciding = sorted(name for name in self.functions if name in truths or asserts(name))
        if deciding and len(self.functions) > 1 and not self._entry_point:
            raise TaskError(
                f"the tests call {', '.join(sorted(self.functions))}, and {deciding[0]} decides: "
                "say by entry_point which is the program's, and define the other"
            )


class _Prefix(dict[str, Any]):
    """Definitions in the beginning of the answers, which are the task's: made when asked for."""

    def __init__(self, prefix: str, entry_point: str) -> None:
        super().__init__()
        self._source: str | None = prefix_alone(prefix, entry_point) if prefix else ""

    def __contains__(self, name: object) -> bool:
        if self._source is not None:
            source, self._source = self._source, None
            names = {"__name__": "prefix"}
            try:
                exec(compile(source, "<prefix>", "exec"), names)
            except (Exception, SystemExit) as error:
                raise TaskError(f"the prefix failed: {type(error).__name__}: {error}") from error
            self.update(names)
        return super().__contains__(name)


class _Solution(types.ModuleType):
    """The program as a module: ``from solution import f``."""

    def __init__(self, name: str, program: RemoteProgram) -> None:
        super().__init__(name)
        self.__dict__["_program"] = program

    def __getattr__(self, name: str) -> Any:
        program: RemoteProgram = self.__dict__["_program"]
        if name.startswith("__") or name not in program.names:
            raise AttributeError(f"the program defines no {name}")
        value = program.constant(name)
        return program.named(name) if callable(value) else value


def provide_modules(program: RemoteProgram, texts: Sequence[str]) -> None:
    """Let the tests import the program and pytest; ``unittest.main`` then ends nothing."""
    for name in SOLUTION_MODULES:
        if name in sys.modules or find_spec(name) is None:
            sys.modules[name] = _Solution(name, program)
    sys.modules["pytest"] = stand_in()
    if not any("unittest" in text for text in texts):
        return
    import unittest  # noqa: PLC0415 - it would be much for every fork to copy

    unittest.main = unittest.TestProgram = lambda *_, **__: None  # type: ignore[assignment,misc]


def seed_everything() -> None:
    """Make what tests draw the same for every program."""
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
        make = numpy.random.default_rng
        numpy.random.default_rng = lambda seed=None: make(0 if seed is None else seed)


def seed_both(program: RemoteProgram) -> None:
    """Let the tests' seeds be the program's, too: it draws in another process."""
    _seed_both(random, "random", program)
    if (numpy := sys.modules.get("numpy")) is not None:
        _seed_both(numpy.random, "numpy.random", program)
    _seed_both(sys, "sys", program, "setrecursionlimit")


def _seed_both(module: Any, place: str, program: RemoteProgram, name: str = "seed") -> None:
    seed, theirs = getattr(module, name), Remote(program, {"callable": [place, name]}, name)

    def seeding(*given: Any, **named: Any) -> None:
        seed(*given, **named)
        asked = program.asked
        theirs(*given, **named)
        program.asked = asked  # that is no test of the program

    setattr(module, name, seeding)


def usual(name: str) -> Any:
    """Usual meaning of a name that tests forgot to import."""
    if name in _USUAL_NAMES or name in sys.stdlib_module_names:
        try:
            return import_module(_USUAL_NAMES.get(name, name))
        except ImportError:
            return None
    for module in _USUAL_SOURCES:
        found = getattr(import_module(module), name, None)
        # re.A and typing.T: a short name in capitals is a class of the program's.
        if found is not None and not isinstance(found, re.RegexFlag | typing.TypeVar):
            return found
    return None
