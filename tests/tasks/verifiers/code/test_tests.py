"""Tests of tasks: what checks nothing is refused, and no wrong program is right."""

import os
from itertools import islice

import pytest

from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.handler import first_difference, same_output
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair
from tasks.verifiers.code import weak_tests as weak
from wrong_programs import FORMS, LIES, wrong_programs


@pytest.fixture(scope="module")
def judge():
    """Outcome and reason of a program by the answer of a problem."""
    with make_verifier("code", workers=1, timeout=20.0) as verifier:

        def judge(answer, program):
            (judged,) = verifier.judge([CodePair(parse_task(answer, "p"), program)])
            return judged.verdict.outcome.value, judged.verdict.reason

        yield judge


@pytest.fixture
def outcome(judge):
    return lambda tests, program, entry_point="": judge(
        {"tests": tests, "entry_point": entry_point}, program
    )


@pytest.mark.parametrize("name", weak.RUN)
def test_every_form_of_tests_is_run_as_its_framework_runs_it(outcome, name):
    for entry_point in ("f", "") if "check" not in name else ("f",):
        assert outcome(weak.RUN[name], weak.ADD, entry_point) == ("CORRECT", "")
        found, reason = outcome(weak.RUN[name], weak.NOTHING, entry_point)
        assert found == "WRONG", reason


@pytest.mark.parametrize("name", weak.NO_TESTS)
def test_tests_in_which_nothing_was_asserted_are_bad_gold(outcome, name):
    for program in (weak.ADD, weak.NOTHING):
        found, reason = outcome(weak.NO_TESTS[name], program, "f")
        assert found == "BAD_GOLD", reason
        assert reason


@pytest.mark.parametrize("name", weak.WRONG)
def test_a_program_that_only_looks_right_is_wrong(outcome, name):
    tests, program = weak.WRONG[name]
    assert outcome(tests, program, "f")[0] == "WRONG"


@pytest.mark.parametrize("name", weak.RIGHT)
def test_a_right_program_is_right_whatever_its_values(outcome, name):
    assert outcome(*weak.RIGHT[name]) == ("CORRECT", "")


def test_helpers_are_those_of_the_task_and_programs_that_return_nothing_cannot_be_compared(
    outcome, judge
):
    program = "def f(a, b): return 0\ndef same(*a): return True"
    for test in weak.HELPERS:
        for entry_point in ("f", ""):
            assert outcome(test, program, entry_point)[0] == "BAD_GOLD", test
    prefix = "def twice(x):\n    return 2 * x\n\ndef f(x):\n    pass\n"
    answer = {"tests": "assert f(3) == twice(3)", "entry_point": "f", "prefix": prefix}
    assert judge(answer, "def f(x): return x + x")[0] == "CORRECT"
    assert judge(answer, "def twice(x): return 0\ndef f(x): return 0")[0] == "WRONG"
    program = "class Solution:\n    def f(self, a, b): return a + b"
    assert outcome(weak.CHECK, program, "Solution.f") == ("CORRECT", "")
    assert outcome(weak.CHECK, program.replace("+", "-"), "Solution.f")[0] == "WRONG"
    program = "import sys\ndef f(): return 'num' + 'py' in sys.modules"
    assert outcome("import numpy\nassert f() is True", program) == ("CORRECT", "")
    assert outcome("assert f() is False", program) == ("CORRECT", "")
    sorts = "```python\ndef f(a):\n    a.sort()\n```"
    answer = {"entry_point": "f", "same_as": sorts, "inputs": [[[2, 1]], [[3]]]}
    reason = "the other program returns nothing that could be compared"
    assert judge(answer, "def f(a): a[:] = sorted(a)") == ("BAD_GOLD", reason)
    assert first_difference("1\n2\n3", "1\n4\n3") == "line 2 is '2', '4' was expected"
    assert first_difference("1", "1\n2") == "1 lines were printed, 2 expected"


GENERATED = 20_000 if os.environ.get("DPH_FUZZ") == "full" else 400
FEW = 50
_AT_ONCE = 400


@pytest.fixture(scope="module")
def outcomes_of():
    with make_verifier("code", workers=2, timeout=20.0) as verifier:

        def judge(pairs):
            tasks = [parse_task({"tests": tests, "entry_point": "f"}, "p") for tests, _ in pairs]
            asked = [CodePair(t, program) for t, (_, program) in zip(tasks, pairs, strict=True)]
            return [judged.verdict.outcome.value for judged in verifier.judge(asked)]

        yield judge


@pytest.mark.parametrize("count", [FEW, pytest.param(GENERATED, marks=pytest.mark.slow)])
def test_no_generated_wrong_program_is_correct(outcomes_of, count):
    made = wrong_programs(0)
    for _ in range(0, count, _AT_ONCE):
        batch = list(islice(made, min(count, _AT_ONCE)))
        found = outcomes_of([(each.tests, each.wrong) for each in batch])
        passed = [each for each, outcome in zip(batch, found, strict=True) if outcome == "CORRECT"]
        assert passed == []
        assert "BAD_GOLD" not in found


def test_what_generated_programs_are_made_of_is_right_in_every_form(outcomes_of):
    made = list(islice(wrong_programs(1), 200))
    assert {each.form for each in made} == set(FORMS)
    assert len({each.change for each in made} & set(LIES)) > len(LIES) / 2
    found = outcomes_of([(each.tests, each.right) for each in made])
    wrong = [each for each, outcome in zip(made, found, strict=True) if outcome != "CORRECT"]
    assert wrong == []


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("5", "5\n", True),
        ("  a b \n\nc\n\n", "a b\n\nc", True),
        ("1.0 2", "1 2.00", True),
        ("1e2", "100", True),
        ("-0", "0", True),
        ("YES\r\nNO\r\n", "YES\nNO", True),
        *(("", "", True), ("1 2", "1\n2", False), ("1  2 x", "1 2 x", False)),
        *(("0.3333", "0.33333", False), ("nan", "NaN", False), ("inf", "Infinity", False)),
        *(("yes", "YES", False), ("", "0", False), ("1\n2", "1", False), ("a b", "b a", False)),
        ("1" * 1_000_000, "1" * 1_000_000, True),  # compared as text
        ("1" * 1_000_000 + ".0", "1" * 1_000_000, False),
    ],
    ids=range(18),
)
def test_blanks_at_the_ends_and_the_writing_of_numbers_alone_do_not_count(printed, expected, same):
    assert same_output(printed, expected) is same_output(expected, printed) is same
    assert same or first_difference(printed, expected)


IMPORT = "from solution import {}\n"
REFUSED = {
    "a class": [
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        "        self.assertEqual(f(2), 3)",
        "class TestF:\n    def setup_method(self):\n        self.a = 2\n"
        "    def test_a(self):\n        assert f(self.a) == 3",
        IMPORT.format("Stack") + "s = Stack()\ns.push(3)\nassert s.pop() == 3",
        IMPORT.format("Shape") + "class Square(Shape): pass\nassert Square(3).area() == 9",
        "class A:\n    a = 5\nassert f(A()) == 5",
        "s = Solution()\nassert s.f(2) == 3",
    ],
    "a fixture: capsys": [
        "def test_a(capsys):\n    f(2)\n    assert capsys.readouterr().out == '3'"
    ],
    "a fixture: g": ["@pytest.mark.parametrize('x', [2])\ndef check(g, x):\n    assert f(x) == 3"],
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
        "import contextlib\nwith contextlib.suppress(AssertionError):\n    assert f(2) == 3",
        "import inspect\nassert list(inspect.signature(f).parameters) == ['a']",
        "import solution\nsolution.g = lambda: 4\nassert solution.f(2) == 3",
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
        "def run():\n    try:\n        assert f(2) == 3\n    finally:\n        return\nrun()",
    ],
    "a with statement": [IMPORT.format("box") + "with box() as b:\n    assert b == 3"],
    "an assignment within an argument": ["assert f(x := [2]) == 3 and x == [2]"],
    "an argument that is looked at again: x": ["x = [2, 1]\nf(x)\nassert x == [1, 2]"],
    "a returned value that the tests change": [
        "x = f(2)\nx.append(1)\nassert f(2) == [3]",
        "import random\nfor row in f(2):\n    random.shuffle(row)\n    assert len(row) == 3",
    ],
    "an attribute of an object": [
        "assert f(2).area == 3",
        "assert f.__doc__ == 'It adds.' and f(2) == 3",
    ],
    "an identity": [
        "x = [2]\nassert f(x) is x",
        "rows = f(2)\nassert rows[0] is not rows[1]",
        "assert len({id(row) for row in f(2)}) == 1",
    ],
    "a function given to the program": ["assert f(lambda x: x, 2) == 3", "assert f([len]) == 3"],
    "an iterator given to the program": [
        "assert f(x for x in [2]) == 3",
        "assert f(map(int, '2')) == 3",
    ],
    "a function of the program that is not called": ["assert f", "g = f\nassert g(2) == 3"],
    "a function that is returned": ["assert f(2)(3) == 5", "g = f(2)\nassert g(3) == 5"],
    "an exception that is none of Python's own": [
        "import json, pytest\nwith pytest.raises(json.JSONDecodeError):\n    f('{')",
        "import pytest\nwith pytest.raises(SystemExit):\n    f(2)",
        "import pytest\nfrom solution import f, MineError\n"
        "with pytest.raises((ValueError, MineError)):\n    f(2)",
    ],
    "an assertion that always holds": [
        "assert (f(2) == 3, 'no')",
        "assert (f(x) == 3 for x in [2])",
        "assert [f(x) == 3 for x in [2]]",
        "assert 'f(2) == 3'",
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
CHEATS = (
    "def f(*a, **b): return 3",
    "def f(*a): raise ValueError",
    "",
    "def (",
    "import os\nos._exit(0)",
)


@pytest.fixture(scope="module")
def verdict_on():
    with make_verifier("code", workers=1, timeout=20.0) as verifier:

        def judge(tests, program, **more):
            task = parse_task({"tests": tests, "entry_point": "f", **more}, "p")
            (judged,) = verifier.judge([CodePair(task, program)])
            return judged.verdict

        yield judge


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_that_values_cannot_show_is_refused_for_every_program(verdict_on, form):
    for tests in REFUSED[form]:
        named = {} if "import Mine" in tests or "solution" not in tests else {"entry_point": ""}
        named = {"entry_point": "Solution.f"} if "Solution()" in tests else named
        found = {verdict_on(tests, program, **named).reason for program in CHEATS}
        (reason,) = found
        assert reason.startswith(f"tests of this form are not supported: {form}"), tests
        assert verdict_on(tests, CHEATS[0], **named).outcome.value == "BAD_GOLD"


@pytest.mark.parametrize("tests", UNKNOWN)
def test_a_name_without_a_meaning_is_refused_for_every_program(verdict_on, tests):
    cheat = "same = isclose = lambda *a: True\nLIMIT = 0\ndef f(x): return 0"
    for program in (*CHEATS, cheat):
        found = verdict_on(tests, program)
        assert found.outcome.value == "BAD_GOLD"
        assert found.reason.startswith(UNKNOWN[tests])


def test_without_an_entry_point_one_name_alone_may_be_the_programs_and_a_setup_is_the_tasks(
    verdict_on,
):
    found = verdict_on("assert decode(encode('ab')) == 'ab'", CHEATS[0], entry_point="")
    assert found.reason.startswith("the tests call decode, encode: say by entry_point")
    found = verdict_on("def check(g):\n    assert g(2) == 3", CHEATS[0], entry_point="")
    assert found.reason.startswith("the tests define check(candidate), and no entry_point")
    assert verdict_on(
        "def check(g):\n    assert g(2) == 3\ncheck(f)", CHEATS[0], entry_point=""
    ) == (verdict_on("assert f(2) == 3", CHEATS[0]))
    program = "def twice(x): return 0\ndef f(x): return 2 * x"
    setup = "def twice(x):\n    return x + x\n"
    assert verdict_on("assert f(2) == twice(2)", program, setup=setup).outcome.value == "CORRECT"
    calls = verdict_on("assert g(2) == 4", program, setup="def g(x):\n    return f(x)\n")
    assert calls.reason == "tests of this form are not supported: a setup that calls the program"
    objects = "class A:\n    a = 5\ndef make():\n    return A()\n"
    found = verdict_on("assert f(make()) == 4", program, setup=objects)
    assert found.reason.endswith("a value of type A given to the program")


def test_an_exception_that_has_to_come_is_the_programs(verdict_on):
    tests = "import pytest\ndef test_a():\n    with pytest.raises(TypeError):\n        f({})"
    assert verdict_on(tests.format("'a'"), "def f(x): return x + 1").outcome.value == "CORRECT"
    assert verdict_on(tests.format("1"), "def f(x): return x + 1").outcome.value == "WRONG"
    assert verdict_on(tests.format("'a'"), "def f(x): return f").outcome.value == "WRONG"
    assert verdict_on(tests.format("'a'"), "def f(x): raise SystemExit").outcome.value == "WRONG"
    assert (
        verdict_on(
            tests.format("'a'"), "class TypeError(Exception): pass\ndef f(x): raise TypeError"
        ).outcome.value
        == "WRONG"
    )
    every = tests.replace("TypeError", "Exception")
    for program in ("def f(x): return f", "def f(x): raise SystemExit", "def f(x): 1"):
        assert verdict_on(every.format("1"), program).outcome.value == "WRONG"
