"""Tests that two processes cannot run as one does are refused by name, and others are run right."""

import pytest

from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair

SHAPE = (
    "class Shape:\n    sides = 0\n    def __init__(self, n=1): self.n = n\n"
    "    def area(self): return self.n\n    def twice(self): return 2 * self.area()\n"
    "def shape(n): return Shape(n)\n"
)
ROWS = "def rows(n):\n    row = [0] * n\n    return [row, row]\n"
CLOCK = "import os, random, time\ndef base(): return 2\ndef f(): return base()\n"
REFUSED = {
    "a class below": (
        SHAPE,
        "class Square(Shape):\n    def area(self): return self.n ** 2\n"
        "assert Square(3).twice() == 18",
        "class below",
    ),
    "a class below, of a module": (
        SHAPE,
        "import solution\ndef test_a():\n"
        "    class Square(solution.Shape): pass\n"
        "    assert Square(3).twice() == 6",
        "class below",
    ),
    "a class below, without any import": (
        SHAPE,
        "class A(Shape):\n    pass\nassert A(1).area() == 1",
        "class below",
    ),
    "a patch of the program": (
        CLOCK,
        "from unittest.mock import patch\n"
        "with patch('solution.base', lambda: 3):\n    assert f() == 3",
        "a patch",
    ),
    "a patch of an object": (
        SHAPE,
        "from unittest import mock\ns = Shape(2)\n"
        "with mock.patch.object(s, 'area', return_value=5):\n"
        "    assert s.twice() == 10",
        "a patch",
    ),
    "a patch of a module": (
        CLOCK,
        "import unittest.mock\n@unittest.mock.patch('time.time')\n"
        "def test_a(now=None):\n    assert f() == 2",
        "a patch",
    ),
    "a patch of the environment": (
        CLOCK,
        "import os\nfrom unittest.mock import patch\n"
        "with patch.dict(os.environ, {'A': '1'}):\n    assert f() == 2",
        "a patch",
    ),
    "a fixture that patches": (CLOCK, "def test_a(monkeypatch):\n    assert f() == 2", "a fixture"),
    "a name set in the program": (
        CLOCK,
        "import solution\nsolution.base = lambda: 4\nassert solution.f() == 4",
        "a change of a module",
    ),
    "a name set by setattr": (
        CLOCK,
        "import solution as s\nsetattr(s, 'base', lambda: 4)\nassert s.f() == 4",
        "a change of a module",
    ),
    "a name set in a module": (
        CLOCK,
        "import time\ntime.sleep = print\nassert f() == 2",
        "a change of a module",
    ),
    "a variable of the environment": (
        CLOCK,
        "import os\nos.environ['A'] = '1'\nassert f() == 2",
        "a change of a module",
    ),
    "rows that are one": (ROWS, "x = rows(2)\nassert x[0] is x[1]", "identity of elements"),
    "rows that are not one": (ROWS, "a, b = rows(2)\nassert a is not b", "identity of elements"),
    "numbers of rows": (ROWS, "assert len({id(r) for r in rows(2)}) == 1", "identity of elements"),
    "a type by name": (SHAPE, "assert type(shape(1)).__name__ == 'Shape'", "type of an object"),
    "a type": (SHAPE, "assert shape(1).__class__ is Shape", "type of an object"),
    "a mock that is an object": (
        "def f(x): return x.get()",
        "from unittest.mock import Mock\nm = Mock()\nm.get.return_value = 3\nassert f(m) == 3",
        "a mock",
    ),
    "records of a log": (
        CLOCK,
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        with self.assertLogs():\n            f()",
        "assertLogs",
    ),
    "what pytest has and this has not": (
        CLOCK,
        "import pytest\nwith pytest.deprecated_call():\n    f()",
        "pytest.deprecated_call",
    ),
    "a signature": (
        "def f(a): return a",
        "import inspect\nassert list(inspect.signature(f).parameters) == ['a']",
        "inspect.signature",
    ),
}
"""A program that passes in one process, its tests, and a part of the reason."""

MET = {
    "an object of the tests": ("def f(x): return x.a", "class A: a = 5\nassert f(A()) == 5"),
    "a member of an enumeration": (
        "def f(x): return x.value",
        "import enum\nclass A(enum.Enum):\n    B = 5\nassert f(A.B) == 5",
    ),
    "a path": ("def f(p): return p.name", "from pathlib import Path\nassert f(Path('a/b')) == 'b'"),
    "an object below an assertion that something fails": (
        "def f(x): return x + 1",
        "import pytest\nclass A: pass\nwith pytest.raises(TypeError):\n    f(A())",
    ),
    "a class below, that the text does not show": (
        SHAPE,
        "bases = [Shape]\nB = bases[0]\nclass A(B): pass\nassert A(1).area() == 1",
    ),
}
"""Forms that are refused when they are met."""

ERRORS = (
    "class LowError(ValueError):\n    pass\nclass CodeError(Exception):\n"
    "    def __init__(self, code):\n        super().__init__(f'E{code}')\n"
    "        self.code = code\n"
    "def guard(g):\n    try:\n        return g()\n    except LowError as error:\n"
    "        return f'low {error}'\n    except CodeError as error:\n        return error.code\n"
    "def retry(g, kinds):\n    for _ in range(3):\n        try:\n            return g()\n"
    "        except kinds:\n            pass\n"
)
READS = "import sys\ndef f(): return sum(map(int, sys.stdin.read().split()))"
RUN = {
    "its exception raised by a function of the tests": (
        ERRORS, "def g(): raise LowError('x')\nassert guard(g) == 'low x'", "low", "high"),
    "one with arguments of its own": (
        ERRORS, "def g(): raise CodeError(7)\nassert guard(g) == 7", "error.code", "str(error)"),
    "one of the tests below it": (
        ERRORS, "class Mine(LowError): pass\ndef g(): raise Mine('y')\nassert guard(g) == 'low y'",
        "{error}", "{type(error).__name__}"),
    "one of the tests that it lets through": (
        ERRORS, "class Mine(Exception):\n    def __init__(self, a):\n        self.a = a\n"
        "def g(): raise Mine(5)\ntry:\n    guard(g)\n    assert False\nexcept Mine as error:\n"
        "    assert error.a == 5", "except LowError", "except Exception"),
    "one of the tests that it is given": (
        ERRORS, "class Mine(Exception): pass\nseen = []\ndef g():\n    seen.append(1)\n"
        "    if len(seen) < 3: raise Mine\n    return 'done'\nassert retry(g, (Mine,)) == 'done'",
        "range(3)", "range(2)"),
    "a patched standard input": (
        READS, "import io\nfrom unittest.mock import patch\n"
        "with patch('sys.stdin', io.StringIO('1\\n2 3')):\n    assert f() == 6", "sum", "max"),
    "a standard input that was set": (
        READS.replace("sys.stdin.read()", "''.join(sys.stdin)"),
        "import io, sys\nsys.stdin = io.StringIO('1\\n2')\nassert f() == 3", "sum", "max"),
    "a patched input": (
        "def f(): return input('a? ') + input('b? ')", "from unittest import mock\n"
        "with mock.patch('builtins.input', side_effect=['1', '2']) as asked:\n"
        "    assert f() == '12'\n    asked.assert_called_with('b? ')", "b? ", "c? "),
    "standard error": (
        "import sys\ndef f(): print('no', file=sys.stderr)",
        "def test_a(capsys):\n    f()\n    assert capsys.readouterr().err == 'no\\n'",
        "no", "yes"),
    "a limit of recursion": (
        "def f(n): return n and 1 + f(n - 1)", "import sys\nsys.setrecursionlimit(9000)\n"
        "assert f(4000) == 4000", "1 +", "2 +"),
    "one object": (
        "class Only:\n    one = None\n    def __new__(cls):\n"
        "        cls.one = cls.one or object.__new__(cls)\n        return cls.one\n",
        "a, b = Only(), Only()\nassert a is b", "cls.one or ", ""),
    "the argument itself": (
        "def f(x):\n    x.sort()\n    return [x]", "y = [2, 1]\nx = f(y)\nassert x[0] is y",
        "[x]", "[x[:]]"),
    "a function of the program with the name of a patch": (
        "class Client:\n    def patch(self, path): return path + '!'",
        "c = Client()\nassert c.patch('/a') == '/a!'", "'!'", "'?'"),
    "a mock that is called": (
        "def f(g): return g(1)", "from unittest.mock import Mock\nm = Mock(return_value=3)\n"
        "assert f(m) == 3\nm.assert_called_once_with(1)", "g(1)", "g(2)"),
    "a bare object that it must not take": (
        "def f(x): return x + 1", "import pytest\nwith pytest.raises(TypeError):\n"
        "    f(object())\nassert f(1) == 2", "x + 1", "x"),
    "classes of the tests that it never sees": (
        "def f(x): return x + 1", "from typing import NamedTuple\nclass Case(NamedTuple):\n"
        "    given: int\n    result: int\nfor case in [Case(1, 2)]:\n"
        "    assert f(case.given) == case.result", "+ 1", "+ 2"),
}  # fmt: skip
"""A program, tests of it, and a change that makes it wrong: the first text for the second."""


@pytest.fixture(scope="module")
def verdict():
    """Verdict about a program under tests."""
    with make_verifier("code", workers=1, timeout=20.0) as verifier:

        def judge(tests, program):
            (judged,) = verifier.judge([CodePair(parse_task({"tests": tests}, "p"), program)])
            return judged.verdict

        yield judge


@pytest.mark.parametrize("name", REFUSED)
def test_a_form_that_two_processes_cannot_run_is_refused_for_every_program(verdict, name):
    program, tests, why = REFUSED[name]
    wrong = program.replace("return", "return None or []; return")
    for each in (program, wrong, "", "raise ValueError", "import os\nos._exit(0)", "def ("):
        found = verdict(tests, each)
        assert found.outcome.value == "BAD_GOLD", found
        assert found.reason.startswith("tests of this form are not supported: "), found
        assert why in found.reason


@pytest.mark.parametrize("name", MET)
def test_a_right_program_is_not_wrong_because_it_cannot_be_given_an_object(verdict, name):
    program, tests = MET[name]
    found = verdict(tests, program)
    assert found.outcome.value == "BAD_GOLD", found
    assert found.reason.startswith("tests of this form are not supported: "), found
    assert "last" not in found.reason


@pytest.mark.parametrize("name", RUN)
def test_forms_next_to_them_are_run_as_in_one_process(verdict, name):
    program, tests, was, becomes = RUN[name]
    assert verdict(tests, program).outcome.value == "CORRECT", verdict(tests, program)
    assert was in program
    found = verdict(tests, program.replace(was, becomes))
    assert found.outcome.value == "WRONG", found


def test_an_exception_of_the_tests_ends_no_loop_of_theirs_when_a_program_raises_it_again(verdict):
    tests = (
        "def g(): raise StopIteration\n"
        "def once():\n    try:\n        f(g)\n    except RuntimeError: pass\n"
        "once()\nassert all(map(f, [1, 2])) and f(1) == 1"
    )
    program = (
        "kept = []\ndef f(x):\n    if callable(x):\n        try: x()\n"
        "        except BaseException as error: kept.append(error)\n        return None\n"
        "    raise kept[0]"
    )
    assert verdict(tests, program).outcome.value == "WRONG"


def test_a_program_cannot_raise_an_exception_that_the_tests_never_raised(verdict):
    program = (
        "def f(g):\n    import sys\n    frame = sys._getframe()\n    while frame:\n"
        "        served = frame.f_locals.get('self')\n        if hasattr(served, '_raised'):\n"
        "            error = ValueError('no')\n            for number in (-1, 5, 'x', None, [1]):\n"
        "                served._raised[id(error)] = (number, error)\n            raise error\n"
        "        frame = frame.f_back\n"
    )
    tests = "class Mine(Exception): pass\ntry:\n    f(print)\n    assert False\nexcept Mine: pass"
    assert verdict(tests, program).outcome.value == "WRONG"
