"""Tests that would pass whatever a program does, and what they have to come to."""

NOTHING = "def f(*a): return None"
ADD = "def f(a, b): return a + b"
CHECK = "METADATA = {'author': 'x'}\n\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n"
CLASS = "class TestF:\n    def test_sum(self):\n        assert f(2, 3) == 5\n"
RUN = {
    "check(candidate) that nobody calls": CHECK,
    "check(candidate) that is called": CHECK + "\ncheck(f)\n",
    "a class of pytest": CLASS,
    "a guard": "if __name__ == '__main__':\n    assert f(2, 3) == 5\n",
    "a main idiom": (
        "def main():\n    assert f(2, 3) == 5\n\nif __name__ == '__main__':\n    main()\n"
    ),
    "a test that returns whether it holds": "def test_sum():\n    return f(2, 3) == 5\n",
    "check that returns whether it holds": (
        "def check(candidate):\n    return candidate(2, 3) == 5\n"
    ),
    "parameters of a check": (
        "@pytest.mark.parametrize('c', [5])\n@pytest.mark.parametrize('a, b', [(2, 3), (3, 2)])\n"
        "def test_sum(candidate, a, b, c):\n    assert candidate(a, b) == c == f(a, b)\n"
    ),
    "approx": "import pytest\ndef test_sum():\n    assert f(2, 3) == pytest.approx(5.0)\n",
    "an if that raises": "if f(2, 3) != 5:\n    raise AssertionError('no')\n",
    "numpy's testing": "import numpy as np\nnp.testing.assert_allclose(f(2, 3), 5)\n",
    "two texts of one name": [
        "def test_sum():\n    assert f(2, 3) == 5\n",
        "def test_sum():\n    assert True\n",
    ],
    "an import of the solution": (
        "from solution import f\ndef test_sum():\n    assert f(2, 3) == 5\n"
    ),
    "all of the solution": "from solution import *\ndef test_sum():\n    assert f(2, 3) == 5\n",
    "an assertion in a helper": "def same(x, y):\n    assert x == y\nsame(f(2, 3), 5)\n",
    "np without its import": "assert np.isclose(f(2, 3), 5)\n",
}
"""Tests of addition, of as many kinds: NOTHING is WRONG, ADD is CORRECT."""

NO_TESTS = {
    "a comment": "# assert f(2, 3) == 5\n",
    "a comparison without assert": "f(2, 3) == 5\n",
    "a call": "print(f(2, 3))\n",
    "a function that nobody calls": "def verify():\n    assert f(2, 3) == 5\n",
    "one of two texts runs": ["assert True", "def verify():\n    assert f(2, 3) == 5\n"],
    "an assertion under a condition that never holds": "if False:\n    assert f(2, 3) == 5\n",
    "assertions of their own function alone": (
        "def f(a, b):\n    return a + b\nassert f(2, 3) == 5\n"
    ),
    "an assertion of nothing": "assert 1 + 1 == 2\n",
    "a loop over nothing": "for a in []:\n    assert f(a, 3) == 5\n",
    "a package that is not here": "import no_such_package\nassert f(2, 3) == 5\n",
    "a fixture that is not here": "def test_sum(two):\n    assert f(two, 3) == 5\n",
    "a helper that is not here": "assert same_number(f(2, 3), 5)\n",
}
"""No tests at all: BAD_GOLD for every program."""

WRONG = {
    "StopIteration under all and map": (
        "assert all(map(f, [1, 2], [3, 4]))",
        "def f(a, b): raise StopIteration",
    ),
    "a class of StopIteration": (
        "assert all(map(f, [1, 2], [3, 4]))",
        "class Stop(StopIteration): pass\ndef f(a, b): raise Stop",
    ),
    "an argument emptied that is expected": (
        "x = [3, 1]\nassert f(x, 0) == sorted(x)",
        "def f(a, b):\n    a.clear()\n    return a",
    ),
    "an argument emptied that a reference is given": (
        "def right(a):\n    total = sorted(a)\n    return total\n"
        "for x in [[3, 1]]:\n    assert f(x, 0) == right(x)",
        "def f(a, b):\n    a.clear()\n    return a",
    ),
    "values of a dictionary in place of a list": (
        "assert f(2, 3) == [5]",
        "def f(a, b): return {1: a + b}.values()",
    ),
    "nothing to run over": ("for x in f(2, 3):\n    assert x == 1", "def f(a, b): return []"),
    "an exit without an error": ("assert f(2, 3) == 5", "import sys\ndef f(a, b): sys.exit(0)"),
    "np of its own": (
        "assert np.allclose(f(2, 3), 5)",
        "class np: allclose = staticmethod(lambda *a: True)\ndef f(a, b): return 0",
    ),
    "a difference that is always small": (
        "assert abs(f(2, 3) - 5) < 1e-6",
        "class E:\n    def __sub__(s, o): return 0.0\n    __rsub__ = __sub__\n"
        "def f(a, b): return E()",
    ),
    "approx of an object": (
        "import pytest\nassert f(2, 3) == pytest.approx(5)",
        "class E(float):\n    __eq__ = lambda s, o: True\ndef f(a, b): return E(1)",
    ),
}
"""Tests and a program that only looks right; the entry point is f. wrong_programs.LIES has more."""

HELPERS = (
    "assert same(f(2, 3), 5)",
    "assert same(f(2, 3), 5) is True",
    "assert all(same(f(x, 3), 5) for x in [2])",
    "ok = same(f(2, 3), 5)\nassert ok",
    "if not same(f(2, 3), 5):\n    raise AssertionError",
    "import unittest\nclass T(unittest.TestCase):\n"
    "    def test_a(self): self.assertTrue(same(f(2, 3), 5))",
)
"""Tests that forget to define what decides in them."""

RIGHT = {
    "values of a dictionary": (
        "v = f({1: 2, 3: 4})\nassert list(v) == [2, 4] and len(v) == 2 and 4 in v",
        "def f(a): return a.values()",
    ),
    "one of several branches fails": (
        "x = f(1)\nif x == 2:\n    pass\n"
        "elif x == 3:\n    raise ValueError\nelse:\n    raise KeyError",
        "def f(a): return 2 * a",
    ),
    "an assertion that has to fail": (
        "import pytest\nwith pytest.raises(AssertionError):\n    assert f(1) == 3\n"
        "assert f(1) == 2",
        "def f(a): return 2 * a",
    ),
    "an exception by its base": (
        "import pytest\nwith pytest.raises(ValueError, match='no'):\n    f(-1)",
        "class NegativeError(ValueError): pass\ndef f(a):\n    raise NegativeError(f'no {a}')",
    ),
    "most_common": (
        "assert f('aab').most_common(1) == [('a', 2)]\nassert f('aab')['z'] == 0",
        "from collections import Counter\ndef f(a): return Counter(a)",
    ),
    "a type as argument": (
        "assert f((4, 5, 4, 7.7, 1.2), int) == [7.7, 1.2]",
        "def f(t, kind): return [x for x in t if not isinstance(x, kind)]",
    ),
    "a type returned": ("assert f(3) is int", "def f(a): return type(a)"),
    "an array as argument": (
        "from array import array\nassert f(array('i', [1, 2])) == array('i', [2, 4])",
        "from array import array\ndef f(a): return array('i', [2 * x for x in a])",
    ),
    "a generator without end": (
        "import itertools\nassert list(itertools.islice(f(), 3)) == [0, 1, 2]\n"
        "g = f()\nassert (next(g), next(g)) == (0, 1)",
        "import itertools\ndef f():\n    yield from itertools.count()",
    ),
    "several of a module": (
        "from solution import f, g\nassert f(1) == 2\nassert g(1) == 3",
        "def f(a): return a + 1\ndef g(a): return a + 2",
    ),
    "random numbers of the tests": (
        "import random\nxs = [random.random() for _ in range(3)]\nassert f(xs) == max(xs)",
        "def f(xs): return max(xs)",
    ),
}
"""Tests and a program that is right; without an entry point."""
