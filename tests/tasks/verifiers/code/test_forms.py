"""Tests that two processes cannot run as one does are refused by name, whatever the program is."""

import pytest

from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair

IMPORT = "from solution import {}\n"
REFUSED = {
    "a class": [
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        "        self.assertEqual(f(2), 3)",
        "class TestF:\n    def setup_method(self):\n        self.a = 2\n"
        "    def test_a(self):\n        assert f(self.a) == 3",
        "import pytest\n@pytest.mark.parametrize('a', [2])\nclass TestF:\n"
        "    def test_a(self, a):\n        assert f(a) == 3",
        IMPORT.format("Stack") + "s = Stack()\ns.push(3)\nassert s.pop() == 3",
        IMPORT.format("Point") + "assert Point(1, 2) == Point(1, 2)",
        IMPORT.format("Shape") + "class Square(Shape): pass\nassert Square(3).area() == 9",
        "class A:\n    a = 5\nassert f(A()) == 5",
        "s = Solution()\nassert s.f(2) == 3",
    ],
    "a fixture: capsys": [
        "def test_a(capsys):\n    f(2)\n    assert capsys.readouterr().out == '3'"
    ],
    "a fixture: monkeypatch": ["def test_a(monkeypatch):\n    assert f(2) == 3"],
    "a decorator": [
        "import functools\n@functools.cache\ndef right(x):\n    return 3\nassert f(2) == right(2)"
    ],
    "pytest.skip": ["import pytest\ndef test_a():\n    pytest.skip('no')\n    assert f(2) == 3"],
    "pytest.mark.skip": ["import pytest\n@pytest.mark.skip\ndef test_a():\n    assert f(2) == 3"],
    "pytest.fixture": [
        "import pytest\n@pytest.fixture\ndef two():\n    return 2\n"
        "def test_a(two):\n    assert f(two) == 3"
    ],
    "pytest.deprecated_call": ["from pytest import deprecated_call\nassert f(2) == 3"],
    "an import of unittest": [
        "from unittest.mock import patch\n"
        "with patch('solution.g', lambda: 3):\n    assert f(2) == 3"
    ],
    "an import of": [
        "import asyncio\nassert asyncio.run(f(2)) == 3",
        "import threading\nthreading.Thread(target=lambda: f(2)).start()\nassert f(2) == 3",
        "import contextlib\nwith contextlib.suppress(AssertionError):\n    assert f(2) == 3",
        "import inspect\nassert list(inspect.signature(f).parameters) == ['a']",
        "import solution\nsolution.g = lambda: 4\nassert solution.f(2) == 3",
        "import os\nos.environ['A'] = '1'\nassert f(2) == 3",
        "import no_such_package\nassert f(2) == 3",
    ],
    "a change of an attribute": ["import time\ntime.sleep = print\nassert f(2) == 3"],
    "a coroutine": ["async def test_a():\n    assert await f(2) == 3"],
    "a generator": ["def test_a():\n    assert f(2) == 3\n    yield"],
    "a match": ["match f(2):\n    case 3: pass\n    case _: raise ValueError"],
    "a global variable": ["def test_a():\n    global x\n    x = f(2)\n    assert x == 3"],
    "a deletion": ["x = [2, 3]\ndel x[0]\nassert f(2) == x[0]"],
    "a try statement": [
        "try:\n    assert f(2) == 3\nexcept AssertionError:\n    print('no')",
        "try:\n    x = f(2)\n    assert x == 3\nexcept Exception:\n    pass",
        "def run():\n    try:\n        assert f(2) == 3\n    finally:\n        return\nrun()",
    ],
    "a with statement": [IMPORT.format("box") + "with box() as b:\n    assert b == 3"],
    "an assignment within an argument": ["assert f(x := [2]) == 3 and x == [2]"],
    "an argument that is looked at again: x": ["x = [2, 1]\nf(x)\nassert x == [1, 2]"],
    "a returned value that the tests change": [
        "x = f(2)\nx.append(1)\nassert f(2) == [3]",
        "x: list = f(2)\nx += [1]\nassert f(2) == [3]",
        "import random\nfor row in f(2):\n    random.shuffle(row)\n    assert len(row) == 3",
    ],
    "an attribute of an object": [
        "assert f(2).area == 3",
        "assert f.__doc__ == 'It adds.' and f(2) == 3",
        "assert type(f(2)).__name__ == 'Shape'",
    ],
    "an identity": [
        "x = [2]\nassert f(x) is x",
        "rows = f(2)\nassert rows[0] is not rows[1]",
        "assert len({id(row) for row in f(2)}) == 1",
        "import operator\nassert operator.is_(f(2), 3)",
    ],
    "a function given to the program": [
        "assert f(lambda x: x, 2) == 3",
        "assert f([len]) == 3",
        "def g(x):\n    return x\nassert f(key=g) == 3",
    ],
    "an iterator given to the program": [
        "assert f(x for x in [2]) == 3",
        "assert f(map(int, '2')) == 3",
    ],
    "a function of the program that is not called": [
        "assert f",
        "g = f\nassert g(2) == 3",
        "def run(g):\n    assert g(2) == 3\nrun(f)",
    ],
    "a function that is returned": ["assert f(2)(3) == 5", "g = f(2)\nassert g(3) == 5"],
    "an exception that is none of Python's own": [
        "import json, pytest\nwith pytest.raises(json.JSONDecodeError):\n    f('{')",
        "import pytest\nwith pytest.raises(SystemExit):\n    f(2)",
        "import pytest\nwith pytest.raises(StopIteration):\n    f(2)",
        "import pytest\nfrom solution import f, MineError\n"
        "with pytest.raises((ValueError, MineError)):\n    f(2)",
    ],
    "an assertion that always holds": [
        "assert (f(2) == 3, 'no')",
        "assert (f(x) == 3 for x in [2])",
        "assert [f(x) == 3 for x in [2]]",
        "assert 'f(2) == 3'",
        "assert f'{f(2)}'",
        "def right():\n    return f(2) == 3\nassert right",
    ],
    "a seed": ["import random\nrandom.seed(3)\nassert f(2) == random.random()"],
    "standard input or output": ["x = open('a')\nassert f(2) == len(x)"],
    "code that is made": ["assert eval('f(2)') == 3", "getattr(f, 'x')\nassert f(2) == 3"],
    "an end": ["if f(2) != 3:\n    exit(1)\nassert f(2) == 3"],
    "two functions of one name": [
        "def test_a():\n    assert f(2) == 3\ndef test_a():\n    assert True"
    ],
    "a function under a condition": ["if True:\n    def test_a():\n        assert f(2) == 3"],
    "a name that is imported as another": ["from solution import f as g\nassert g(2) == 3"],
    "a check of something else": ["def check(g):\n    assert g(2) == 3\ncheck(lambda x: f(x))"],
}
"""Names of forms, and tests of f."""
UNKNOWN = {
    "assert same(f(2), 3)": "the tests use same",
    "from solution import f\nassert same(f(2), 3)": "the tests use same",
    "assert isclose(f(2), 3)": "the tests use isclose",
    "assert f(2) == LIMIT": "the tests use LIMIT",
    "def f(x):\n    return 3\nassert f(2) == 3": "the tests define f",
    "def test_a():\n    f = 5\n    assert f == 5": "the tests define f",
}
"""Tests in which a name has no meaning, and the beginning of the reason."""
PROGRAMS = (
    "def f(*a, **b): return 3",
    "def f(*a): raise ValueError",
    "",
    "def (",
    "import os\nos._exit(0)",
)


@pytest.fixture(scope="module")
def verdict():
    """Verdict about a program under tests."""
    with make_verifier("code", workers=1, timeout=20.0) as verifier:

        def judge(tests, program, **more):
            task = parse_task({"tests": tests, "entry_point": "f", **more}, "p")
            (judged,) = verifier.judge([CodePair(task, program)])
            return judged.verdict

        yield judge


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_values_cannot_show_is_refused_for_every_program(verdict, form):
    for tests in REFUSED[form]:
        named = {} if "import Mine" in tests or "solution" not in tests else {"entry_point": ""}
        named = {"entry_point": "Solution.f"} if "Solution()" in tests else named
        found = {verdict(tests, program, **named).reason for program in PROGRAMS}
        (reason,) = found
        assert reason.startswith(f"tests of this form are not supported: {form}"), tests
        assert verdict(tests, PROGRAMS[0], **named).outcome.value == "BAD_GOLD"


@pytest.mark.parametrize("tests", UNKNOWN)
def test_a_name_without_a_meaning_is_refused_for_every_program(verdict, tests):
    cheat = "same = isclose = lambda *a: True\nLIMIT = 0\ndef f(x): return 0"
    for program in (*PROGRAMS, cheat):
        found = verdict(tests, program)
        assert found.outcome.value == "BAD_GOLD"
        assert found.reason.startswith(UNKNOWN[tests])


def test_without_an_entry_point_one_name_alone_may_be_the_programs(verdict):
    found = verdict("assert decode(encode('ab')) == 'ab'", PROGRAMS[0], entry_point="")
    assert found.reason.startswith("the tests call decode, encode: say by entry_point")
    found = verdict("def check(g):\n    assert g(2) == 3", PROGRAMS[0], entry_point="")
    assert found.reason.startswith("the tests define check(candidate), and no entry_point")
    assert verdict(
        "def check(g):\n    assert g(2) == 3\ncheck(f)", PROGRAMS[0], entry_point=""
    ) == (verdict("assert f(2) == 3", PROGRAMS[0]))


def test_a_setup_is_the_tasks_own(verdict):
    program = "def twice(x): return 0\ndef f(x): return 2 * x"
    setup = "def twice(x):\n    return x + x\n"
    assert verdict("assert f(2) == twice(2)", program, setup=setup).outcome.value == "CORRECT"
    calls = verdict("assert g(2) == 4", program, setup="def g(x):\n    return f(x)\n")
    assert calls.reason == "tests of this form are not supported: a setup that calls the program"
    objects = "class A:\n    a = 5\ndef make():\n    return A()\n"
    found = verdict("assert f(make()) == 4", program, setup=objects)
    assert found.reason.endswith("a value of type A given to the program")


def test_an_exception_that_has_to_come_is_the_programs(verdict):
    tests = "import pytest\ndef test_a():\n    with pytest.raises(TypeError):\n        f({})"
    assert verdict(tests.format("'a'"), "def f(x): return x + 1").outcome.value == "CORRECT"
    assert verdict(tests.format("1"), "def f(x): return x + 1").outcome.value == "WRONG"
    assert verdict(tests.format("'a'"), "def f(x): return f").outcome.value == "WRONG"
    assert verdict(tests.format("'a'"), "def f(x): raise SystemExit").outcome.value == "WRONG"
    assert (
        verdict(
            tests.format("'a'"), "class TypeError(Exception): pass\ndef f(x): raise TypeError"
        ).outcome.value
        == "WRONG"
    )
    every = tests.replace("TypeError", "Exception")
    for program in ("def f(x): return f", "def f(x): raise SystemExit", "def f(x): 1"):
        assert verdict(every.format("1"), program).outcome.value == "WRONG"
