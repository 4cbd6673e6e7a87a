"""Tests that would pass whatever a program does, and what they have to come to.

Each entry: the problem's answer, a program, the outcome's name.
"""

NOTHING = "def f(*a): return None"
ADD = "def f(a, b): return a + b"
CHECK = "METADATA = {'author': 'x'}\n\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n"
CLASS = "class TestF:\n    def test_sum(self):\n        assert f(2, 3) == 5\n"
UNITTEST = (
    "import unittest\n\nclass TestF(unittest.TestCase):\n"
    "    def test_sum(self):\n        self.assertEqual(f(2, 3), 5)\n"
)
RUN = {
    "check(candidate) that nobody calls": CHECK,
    "check(candidate) that is called": CHECK + "\ncheck(f)\n",
    "a class of pytest": CLASS,
    "a class of pytest with setup": (
        "class TestF:\n    def setup_method(self):\n        self.a = 2\n"
        "    def test_sum(self):\n        assert f(self.a, 3) == 5\n"
    ),
    "a coroutine": "async def test_sum():\n    assert f(2, 3) == 5\n",
    "a generator": "def test_sum():\n    assert f(2, 3) == 5\n    yield\n",
    "a generator of calls": (
        "def one(a, b, c):\n    assert f(a, b) == c\n"
        "def test_sum():\n    yield one, 2, 3, 5\n    yield one, 1, 1, 2\n"
    ),
    "a guard": "if __name__ == '__main__':\n    assert f(2, 3) == 5\n",
    "a main idiom": (
        "def main():\n    assert f(2, 3) == 5\n\nif __name__ == '__main__':\n    main()\n"
    ),
    "unittest": UNITTEST,
    "unittest.main()": UNITTEST + "\nif __name__ == '__main__':\n    unittest.main()\n",
    "unittest.main() under sys.exit": UNITTEST + "\nimport sys\nsys.exit(unittest.main())\n",
    "an asynchronous class of unittest": (
        "import unittest\nclass TestF(unittest.IsolatedAsyncioTestCase):\n"
        "    async def test_sum(self):\n        self.assertEqual(f(2, 3), 5)\n"
    ),
    "a test that returns whether it holds": "def test_sum():\n    return f(2, 3) == 5\n",
    "check that returns whether it holds": (
        "def check(candidate):\n    return candidate(2, 3) == 5\n"
    ),
    "parameters": (
        "import pytest\n@pytest.mark.parametrize('a, b, c', [(2, 3, 5), (0, 0, 0)])\n"
        "def test_sum(a, b, c):\n    assert f(a, b) == c\n"
    ),
    "a fixture": (
        "import pytest\n@pytest.fixture\ndef two():\n    return 2\n"
        "def test_sum(two):\n    assert f(two, 3) == 5\n"
    ),
    "approx": "import pytest\ndef test_sum():\n    assert f(2, 3) == pytest.approx(5.0)\n",
    "an if that raises": "if f(2, 3) != 5:\n    raise AssertionError('no')\n",
    "numpy's testing": "import numpy as np\nnp.testing.assert_allclose(f(2, 3), 5)\n",
    "two tests of one name": (
        "def test_sum():\n    assert f(2, 3) == 5\ndef test_sum():\n    assert True\n"
    ),
    "two texts of one name": [
        "def test_sum():\n    assert f(2, 3) == 5\n",
        "def test_sum():\n    assert True\n",
    ],
    "an import of the solution": (
        "from solution import f\ndef test_sum():\n    assert f(2, 3) == 5\n"
    ),
    "all of the solution": "from solution import *\ndef test_sum():\n    assert f(2, 3) == 5\n",
    "the solution as a module": "import solution\nassert solution.f(2, 3) == 5\n",
    "an assertion in a helper": "def same(x, y):\n    assert x == y\nsame(f(2, 3), 5)\n",
    "a generator that its tests forget to ask for all": (
        "assert (f(2, x) == 2 for x in [3])\nassert f(2, 3) == 5\n"
    ),
    "two classes of one name": UNITTEST
    + UNITTEST.replace("import unittest\n\n", "").replace("f(2, 3), 5", "1, 1"),
    "two tests of one name in a branch": (
        "if True:\n    def test_sum():\n        assert f(2, 3) == 5\n"
        "    def test_sum():\n        assert True\n"
    ),
    "two checks of one name": CHECK + "def check(candidate):\n    assert True\n",
    "a failure that is printed": (
        "try:\n    assert f(2, 3) == 5\n    print('passed')\n"
        "except AssertionError:\n    print('failed')\n"
    ),
    "any failure that is printed": (
        "def test_sum():\n    try:\n        assert f(2, 3) + 0 == 5\n"
        "    except Exception as error:\n        print(error)\n"
    ),
    "a failure of unittest that nobody looks at": (
        UNITTEST.replace("test_sum", "sums")
        + "unittest.TextTestRunner().run(unittest.TestSuite([TestF('sums')]))\n"
    ),
    "a failure in a thread": (
        "import threading\ndef run():\n    assert f(2, 3) == 5\n"
        "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\n"
    ),
    "a failure in a pool": (
        "from concurrent.futures import ThreadPoolExecutor\ndef run():\n    assert f(2, 3) == 5\n"
        "with ThreadPoolExecutor() as pool:\n    pool.submit(run)\n"
    ),
    "a failure that gather returns": (
        "import asyncio\nasync def run():\n    assert f(2, 3) == 5\n"
        "async def main():\n    return await asyncio.gather(run(), return_exceptions=True)\n"
        "asyncio.run(main())\n"
    ),
    "a failure that a context swallows": (
        "import contextlib\nwith contextlib.suppress(AssertionError):\n    assert f(2, 3) == 5\n"
    ),
    "a failure that a return swallows": (
        "def run():\n    try:\n        assert f(2, 3) == 5\n    finally:\n        return\nrun()\n"
    ),
    "a fixture of every test": (
        "import pytest\nclass TestF:\n    @pytest.fixture(autouse=True)\n"
        "    def two(self):\n        self.a = 2\n"
        "    def test_sum(self):\n        assert f(self.a, 3) == 5\n"
    ),
    "a test that may fail beside": (
        "import pytest\n@pytest.mark.xfail\ndef test_more():\n    assert f(2, 3) == 6\n"
        "def test_sum():\n    assert f(2, 3) == 5\n"
    ),
    "parameters of a class": (
        "import pytest\n@pytest.mark.parametrize('a, c', [(2, 5), (0, 3)])\n"
        "class TestF:\n    def test_sum(self, a, c):\n        assert f(a, 3) == c\n"
    ),
    "functions that prepare": (
        "def setup_module(module):\n    global total\n    total = f(2, 3)\n"
        "def setup_function():\n    global more\n    more = 1\n"
        "def test_sum():\n    assert total + more == 6\n"
    ),
    "cases of a match": "match f(2, 3):\n    case 5: pass\n    case _: raise ValueError\n",
    "a class by a letter that re has": (
        "class A:\n    def sum(self): return f(2, 3)\nassert A().sum() == 5\n"
    ),
    "isclose without its import": "assert isclose(f(2, 3), 5)\n",
    "np without its import": "assert np.isclose(f(2, 3), 5)\n",
}
"""Tests of addition, of as many kinds: NOTHING is WRONG, ADD is CORRECT."""

NO_TESTS = {
    "a comment": "# assert f(2, 3) == 5\n",
    "a comparison without assert": "f(2, 3) == 5\n",
    "a call": "print(f(2, 3))\n",
    "a function that nobody calls": "def verify():\n    assert f(2, 3) == 5\n",
    "one of two texts runs": ["assert True", "def verify():\n    assert f(2, 3) == 5\n"],
    "unittest.skip": (
        "import unittest\n@unittest.skip('later')\nclass TestF(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.assertEqual(f(2, 3), 5)\n"
    ),
    "skipTest": (
        "import unittest\nclass TestF(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.skipTest('later')\n"
    ),
    "pytest.skip": (
        "import pytest\ndef test_sum():\n    pytest.skip('later')\n    assert f(2, 3) == 5\n"
    ),
    "pytest.mark.skip": (
        "import pytest\n@pytest.mark.skip\ndef test_sum():\n    assert f(2, 3) == 5\n"
    ),
    "an assertion of a pair": "assert (f(2, 3) == 5, 'no')\n",
    "an assertion of a generator": "assert (f(2, x) == 5 for x in [3])\n",
    "an assertion of a list": "assert [f(2, x) == 5 for x in [3]]\n",
    "an assertion of a text": "assert 'f(2, 3) == 5'\n",
    "an assertion of a function": "assert f\n",
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
    "StopIteration under zip": (
        "assert all(x == 4 for x, y in zip(map(f, [1], [3]), [4]))",
        "def f(a, b): raise StopIteration",
    ),
    "StopIteration under filter": (
        "assert not list(filter(lambda x: f(x, 1) != 2, [1, 5]))",
        "def f(a, b): raise StopIteration",
    ),
    "StopIteration under starmap": (
        "import itertools\nassert all(itertools.starmap(f, [(1, 3)]))",
        "def f(a, b): raise StopIteration",
    ),
    "a class of StopIteration": (
        "assert all(map(f, [1, 2], [3, 4]))",
        "class Stop(StopIteration): pass\ndef f(a, b): raise Stop",
    ),
    "an argument changed and returned": (
        "x = [3, 1]\noriginal = list(x)\ny = f(x, 0)\nassert y == [1, 3]\nassert x == original",
        "def f(a, b):\n    a.sort()\n    return a",
    ),
    "a row of an argument changed": (
        "row = [1]\nf([row], 0)\nassert row == [1]",
        "def f(a, b):\n    a[0].append(2)\n    return 5",
    ),
    "an argument emptied that is expected": (
        "x = [3, 1]\nassert f(x, 0) == sorted(x)",
        "def f(a, b):\n    a.clear()\n    return a",
    ),
    "an argument changed, seen beside the value": (
        "x = [3, 1, 2]\nassert (f(x, 0), x) == ([1, 2, 3], [3, 1, 2])",
        "def f(a, b):\n    a.sort()\n    return list(a)",
    ),
    "an argument changed, seen in the same condition": (
        "xs = [[3, 1], [2, 1]]\nassert all(f(x, 0) == 1 and x for x in xs)",
        "def f(a, b):\n    a.clear()\n    return 1",
    ),
    "an argument emptied that a reference is given": (
        "def right(a):\n    total = sorted(a)\n    return total\n"
        "for x in [[3, 1]]:\n    assert f(x, 0) == right(x)",
        "def f(a, b):\n    a.clear()\n    return a",
    ),
    "an array changed in place": (
        "import numpy as np\nx = np.array([3, 1])\ny = f(x, 0)\nassert y.tolist() == [1, 3]\n"
        "assert x.tolist() == [3, 1]",
        "def f(a, b):\n    a.sort()\n    return a",
    ),
    "the argument itself in place of a copy": (
        "x = [1]\ny = f(x, 0)\nassert y == x\nassert y is not x",
        "def f(a, b): return a",
    ),
    "an exception in a thread": (
        "import threading\ndef run():\n    assert f(2, 3) == 5\n"
        "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\n",
        "def f(a, b): raise ValueError",
    ),
    "an exit in a thread": (
        "import threading\ndef run():\n    assert f(2, 3) == 5\n"
        "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\n",
        "import sys\ndef f(a, b): sys.exit(0)",
    ),
    "an exception in a pool": (
        "from concurrent.futures import ThreadPoolExecutor\ndef run():\n    assert f(2, 3) == 5\n"
        "with ThreadPoolExecutor() as pool:\n    pool.submit(run)\n",
        "def f(a, b): raise ValueError",
    ),
    "an exception that is printed": (
        "try:\n    assert f(2, 3) == 5\nexcept (AssertionError, ValueError) as error:\n"
        "    print(error)\n",
        "def f(a, b): raise ValueError",
    ),
    **{
        f"an exception before the assertion under {handler}": (
            f"try:\n    x = f(2, 3)\n    assert x == 5\n{handler}\n",
            "def f(a, b): raise ValueError",
        )
        for handler in (
            "except:\n    pass",
            "except Exception as error:\n    print(error)",
            "except (ValueError, Exception):\n    pass",
        )
    },
    "an exception before an else": (
        "try:\n    x = f(2, 3)\nexcept Exception:\n    pass\nelse:\n    assert x == 5\n",
        "def f(a, b): raise ValueError",
    ),
    "a failure that is only noted": (
        "try:\n    assert f(2, 3) == 5\n    word = 'good'\nexcept Exception:\n    word = 'bad'\n"
        "print(word)",
        "def f(a, b): return 6",
    ),
    "failures that are only counted": (
        "failed, told = 0, []\nfor b in [3]:\n    try:\n        assert f(2, b) == 5\n"
        "    except AssertionError as error:\n        failed += 1\n        told.append(error)\n"
        "print(f'{failed} failed', told)",
        "def f(a, b): return 6",
    ),
    "a list that it keeps": (
        "x = f(2, 3)\nx.append(1)\nassert f(2, 3) == [5]",
        "KEPT = [5]\ndef f(a, b): return KEPT",
    ),
    "one list for all calls": (
        "x, y = f(2, 3), f(1, 1)\nassert x is not y\nassert x == y == [5]",
        "KEPT = [5]\ndef f(a, b): return KEPT",
    ),
    "values of a dictionary in place of a list": (
        "assert f(2, 3) == [5]",
        "def f(a, b): return {1: a + b}.values()",
    ),
    "no documentation": (
        "assert f.__doc__ is not None and f(2, 3) == 5",
        "def f(a, b): return a + b",
    ),
    "nothing to run over": ("for x in f(2, 3):\n    assert x == 1", "def f(a, b): return []"),
    "a text that begins with anything": (
        "assert f(2, 3).startswith('6')",
        "class E:\n    startswith = lambda *a: True\ndef f(a, b): return E()",
    ),
    "equal to all but an object": (
        "assert f(2, 3) == Expected(5)",
        "class Expected:\n    def __init__(s, x): pass\n"
        "    def __eq__(s, o): return type(o) is not object\ndef f(a, b): return 0",
    ),
    "an exit without an error": ("assert f(2, 3) == 5", "import sys\ndef f(a, b): sys.exit(0)"),
    "a test of unittest that it skips": (
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(f(2, 3), 5)\n"
        "    def test_b(self): self.assertEqual(f.__name__, 'f')",
        "import unittest\ndef f(a, b): raise unittest.SkipTest('no')",
    ),
    "isclose of its own": (
        "assert isclose(f(2, 3), 5)",
        "def isclose(*a): return True\ndef f(a, b): return 0",
    ),
    "np of its own": (
        "assert np.allclose(f(2, 3), 5)",
        "class np: allclose = staticmethod(lambda *a: True)\ndef f(a, b): return 0",
    ),
    "a difference that is always small": (
        "assert abs(f(2, 3) - 5) < 1e-6",
        "class E:\n    def __sub__(s, o): return 0.0\n    __rsub__ = __sub__\n"
        "def f(a, b): return E()",
    ),
    "a difference that is an object": (
        "assert abs(f(2, 3) - 5) < 1e-6",
        "class E:\n    def __sub__(s, o): return s\n    def __abs__(s): return 0.0\n"
        "    def __lt__(s, o): return True\ndef f(a, b): return E()",
    ),
    "smaller than anything": (
        "assert f(2, 3) < 6",
        "class E:\n    __lt__ = __gt__ = __le__ = __ge__ = lambda s, o: True\n"
        "def f(a, b): return E()",
    ),
    "holds everything": (
        "assert 5 in f(2, 3)",
        "class E:\n    def __contains__(s, o): return True\ndef f(a, b): return E()",
    ),
    "true by itself": (
        "assert f(2, 3)",
        "class E:\n    def __bool__(s): return True\ndef f(a, b): return E()",
    ),
    "equal to anything of its own": (
        "assert f(2, 3) == Point(5, 0)",
        "class Point:\n    def __init__(s, x, y): s.x = x\n"
        "    def __eq__(s, o): return True\ndef f(a, b): return Point(1, 1)",
    ),
    "approx of an object": (
        "import pytest\nassert f(2, 3) == pytest.approx(5)",
        "class E(float):\n    __eq__ = lambda s, o: True\ndef f(a, b): return E(1)",
    ),
}
"""Tests and a program that only looks right; the entry point is f."""

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

POINT = (
    "class Point:\n    def __init__(s, x, y): s.x, s.y = x, y\n"
    "    def __add__(s, o): return Point(s.x + o.x, s.y + o.y)\n"
    "    def __mul__(s, k): return Point(s.x * k, s.y * k)\n"
    "    def __eq__(s, o): return isinstance(o, Point) and (s.x, s.y) == (o.x, o.y)\n"
    "    def __lt__(s, o): return s.x < o.x\n    def __hash__(s): return hash((s.x, s.y))\n"
    "    def __repr__(s): return f'Point({s.x}, {s.y})'\n    def __abs__(s): return s.x + s.y\n"
    "    def __len__(s): return 2\n    def __iter__(s): return iter((s.x, s.y))\n"
    "    def __getitem__(s, i): return (s.x, s.y)[i]\n    def __bool__(s): return bool(s.x)\n"
)
RIGHT = {
    "classes whose names re and typing have": (
        "assert A(2).x == 2 and S(3).x == 3 and T().x == 4",
        "class A:\n    def __init__(s, x): s.x = x\nclass S(A): pass\n"
        "class T(A):\n    def __init__(s): s.x = 4\n",
    ),
    "containers that it keeps": (
        "b = Box()\nb.items.append(3)\nb.names['a'].add(4)\n"
        "assert b.items == [3] and b.size() == 2\n"
        "x = b.items\nb.put(5)\nassert x == [3, 5]\nx.append(6)\nassert b.items is x\n"
        "assert b.items == [3, 5, 6] and b.size() == 4",
        "from collections import defaultdict\nclass Box:\n"
        "    def __init__(s): s.items, s.names = [], defaultdict(set)\n"
        "    def put(s, x): s.items.append(x)\n"
        "    def size(s): return len(s.items) + len(s.names['a'])",
    ),
    "copies of what it keeps": (
        "b = Box()\nb.items().append(3)\nassert b.items() == [] and b.items() is not b.items()",
        "class Box:\n    def __init__(s): s.kept = []\n    def items(s): return list(s.kept)",
    ),
    "threads that call at once": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n"
        "    assert list(pool.map(f, range(40))) == [2 * x for x in range(40)]",
        "def f(a): return 2 * a",
    ),
    "values of a dictionary": (
        "v = f({1: 2, 3: 4})\nassert list(v) == [2, 4] and len(v) == 2 and 4 in v",
        "def f(a): return a.values()",
    ),
    "failures that are counted": (
        "failed = []\nfor a in (1, 2):\n    try:\n        assert f(a) == 2\n"
        "    except AssertionError:\n        failed.append(a)\nassert failed == [2]",
        "def f(a): return 2 * a",
    ),
    "a class below another": (
        "assert issubclass(Dog, Animal) and not issubclass(Animal, Dog)\n"
        "assert isinstance(Dog(), Animal)",
        "class Animal: pass\nclass Dog(Animal): pass",
    ),
    "iterators as arguments": (
        "import itertools\nassert f(iter([1, 2, 3])) == 3\nassert f(x for x in [4, 5]) == 5\n"
        "assert f(map(int, '67')) == 7\nassert f(zip([1], [2])) == (1, 2)\n"
        "assert g(itertools.count(5)) == [5, 6]\nx = iter([1, 2, 3])\nassert g(x) == [1, 2]\n"
        "assert next(x) == 3",
        "def f(xs): return max(xs)\ndef g(xs): return [next(xs), next(xs)]",
    ),
    "documentation": (
        "assert f.__doc__ == 'It adds.' and f(1) == 2",
        "def f(a):\n    'It adds.'\n    return a + 1",
    ),
    "an exception that any handler may catch": (
        "try:\n    f(-1)\n    assert False, 'none was raised'\nexcept Exception as error:\n"
        "    print(error)\ntry:\n    f(-1)\nexcept Exception as error:\n"
        "    assert str(error) == 'no'",
        "def f(a): raise ValueError('no')",
    ),
    "equality that takes its own kind for granted": (
        "assert Coin(5) == Coin.of('5')\nassert Coin(5) != Coin(6)\nassert Coin(1) in [Coin(1)]",
        "class Coin:\n    def __init__(s, x): s.x = x\n    def __eq__(s, o): return s.x == o.x\n"
        "    @classmethod\n    def of(c, text): return c(int(text))",
    ),
    "operators in place, divmod, floor, copies": (
        "import copy, math\ns = Sum(5)\ns += 2\nassert s.x == 7\nassert divmod(s, 2) == (3, 1)\n"
        "assert math.floor(Sum(2.5)) == 2\nt = copy.deepcopy(s)\nt.x = 1\nassert s.x == 7",
        "import math\nclass Sum:\n    def __init__(s, x): s.x = x\n"
        "    def __iadd__(s, n):\n        s.x += n\n        return s\n"
        "    def __divmod__(s, n): return divmod(s.x, n)\n"
        "    def __floor__(s): return math.floor(s.x)",
    ),
    "nodes until there is none": (
        "def values(node):\n    found = []\n    while node:\n        found.append(node.x)\n"
        "        node = node.next\n    return found\nassert values(f([1, 2])) == [1, 2]",
        "class Node:\n    def __init__(s, x, n): s.x, s.next = x, n\n"
        "def f(xs): return Node(xs[0], f(xs[1:])) if xs else None",
    ),
    "the argument itself, changed": (
        "x = [3, 1]\ny = f(x)\nassert y is x\nassert x == [1, 3]\nassert f(x) is x",
        "def f(a):\n    a.sort()\n    return a",
    ),
    "the argument as it is beside the value": (
        "x = [3, 1, 2]\nassert (f(x), x) == ([1, 2, 3], [1, 2, 3])",
        "def f(a):\n    a.sort()\n    return a",
    ),
    "an array changed in place": (
        "import numpy as np\nx = np.array([3, 1])\nf(x)\nassert x.tolist() == [1, 3]",
        "def f(a): a.sort()",
    ),
    "an exception of the library": (
        "import json, pytest\nwith pytest.raises(json.JSONDecodeError):\n    f('{')",
        "import json\ndef f(text): return json.loads(text)",
    ),
    "the end of a program": (
        "import pytest\nwith pytest.raises(SystemExit) as end:\n    f()\n"
        "assert end.value.code == 2",
        "import sys\ndef f(): sys.exit(2)",
    ),
    "the text of its own exception": (
        "try:\n    f()\n    assert False\nexcept CodeError as error:\n"
        "    assert str(error) == 'E7'",
        "class CodeError(Exception):\n    def __init__(s, c): s.c = c\n"
        "    def __str__(s): return f'E{s.c}'\ndef f(): raise CodeError(7)",
    ),
    "an order of keys": (
        "assert list(f().keys()) == ['b', 'a']\nassert list(g()) == ['b', 'a']\n"
        "assert h()['z'] == []",
        "from collections import defaultdict\ndef f(): return {'b': 1, 'a': 2}\n"
        "def g(): return f().keys()\ndef h(): return defaultdict(list)",
    ),
    "the tests' seed": (
        "import random\nrandom.seed(3)\nx = f()\nrandom.seed(3)\n"
        "assert f() == x == 0.23796462709189137",
        "import random\ndef f(): return random.random()",
    ),
    "named arguments of a function that is given": (
        "assert f(lambda x, k=1: x + k) == 6",
        "def f(g): return g(1, k=5)",
    ),
    "a list with methods of its own": (
        "s = Stack([1, 2])\ns.push(3)\nassert s.peek() == 3\nassert s == [1, 2, 3]\n"
        "assert len(s) == 3 and 2 in s and list(s) == [1, 2, 3] and s[0] == 1\n"
        "s.append(4)\nassert s.peek() == 4 and s != [1]\nassert [*s] == [1, 2, 3, 4]",
        "class Stack(list):\n    def push(s, x): s.append(x)\n    def peek(s): return s[-1]",
    ),
    "one of several branches fails": (
        "x = f(1)\nif x == 2:\n    pass\n"
        "elif x == 3:\n    raise ValueError\nelse:\n    raise KeyError",
        "def f(a): return 2 * a",
    ),
    "an exception that is wanted": (
        "try:\n    assert f(-1) == 0\nexcept ValueError as error:\n    print(error)\n"
        "try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass",
        "def f(a): raise ValueError",
    ),
    "one of two answers": (
        "try:\n    assert f(1) == 3\nexcept AssertionError:\n    assert f(1) == 2",
        "def f(a): return 2 * a",
    ),
    "how many passed": (
        "passed = 0\nfor a in (1, 2):\n    try:\n        assert f(a) == 2\n        passed += 1\n"
        "    except AssertionError:\n        passed += 0\nassert passed == 1",
        "def f(a): return 2 * a",
    ),
    "an assertion that has to fail": (
        "import pytest\nwith pytest.raises(AssertionError):\n    assert f(1) == 3\n"
        "assert f(1) == 2",
        "def f(a): return 2 * a",
    ),
    "a test that has to fail": (
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n"
        "    def test_a(self): self.assertEqual(f(1), 3)\n"
        "    def test_b(self): self.assertEqual(f(1), 2)",
        "def f(a): return 2 * a",
    ),
    "operators of its own": ("assert Point(1, 2) + Point(3, 4) == Point(4, 6)", POINT),
    "a number times its own": ("assert Point(1, 2) * 3 == Point(3, 6)", POINT),
    "not equal": ("assert Point(1, 2) != Point(1, 3)\nassert Point(1, 2) != 5", POINT),
    "repr": ("assert repr(Point(1, 2)) == 'Point(1, 2)'", POINT),
    "str and format": (
        "assert str(Point(1, 2)) == 'Point(1, 2)' == f'{Point(1, 2)}'",
        POINT,
    ),
    "ordering": ("a, b = Point(1, 2), Point(3, 4)\nassert a < b and sorted([b, a])[0] == a", POINT),
    "hash": ("assert len({Point(1, 2), Point(1, 2), Point(2, 2)}) == 2", POINT),
    "abs, len, items, truth": (
        "p = Point(1, 2)\nassert abs(p) == 3\nassert len(p) == 2\nassert list(p) == [1, 2]\n"
        "assert p[1] == 2\nassert p\nassert not Point(0, 1)",
        POINT,
    ),
    "isinstance": ("assert isinstance(Point(1, 2), Point)\nassert not isinstance(5, Point)", POINT),
    "what a class holds": (
        "t = Trie()\nt.add('a')\nassert 'a' in t\nassert 'b' not in t",
        "class Trie:\n    def __init__(s): s.w = set()\n    def add(s, w): s.w.add(w)\n"
        "    def __contains__(s, w): return w in s.w",
    ),
    "an exception of its own": (
        "try:\n    f(-1)\n    assert False\nexcept NegativeError as error:\n"
        "    assert str(error) == 'no -1'",
        "class NegativeError(ValueError): pass\ndef f(a):\n    raise NegativeError(f'no {a}')",
    ),
    "an exception by its base": (
        "import pytest\nwith pytest.raises(ValueError, match='no'):\n    f(-1)",
        "class NegativeError(ValueError): pass\ndef f(a):\n    raise NegativeError(f'no {a}')",
    ),
    "attributes of an exception": (
        "try:\n    f(1)\n    assert False\nexcept CodeError as error:\n    assert error.code == 7",
        "class CodeError(Exception):\n    def __init__(s, code):\n        super().__init__(code)\n"
        "        s.code = code\ndef f(a):\n    raise CodeError(7)",
    ),
    "assertRaises": (
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
        "        with self.assertRaises(ZeroDivisionError):\n            f(0)\n",
        "def f(a): return 1 / a",
    ),
    "fields of a namedtuple": (
        "p = f(1)\nassert (p.x, p.y) == (1, 2)\nassert p == (1, 2)",
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(a): return P(a, 2)",
    ),
    "most_common": (
        "assert f('aab').most_common(1) == [('a', 2)]\nassert f('aab')['z'] == 0",
        "from collections import Counter\ndef f(a): return Counter(a)",
    ),
    "constants": ("assert f(1) == LIMIT + 1", "LIMIT = 9\ndef f(a): return LIMIT + a"),
    "a type as argument": (
        "assert f((4, 5, 4, 7.7, 1.2), int) == [7.7, 1.2]",
        "def f(t, kind): return [x for x in t if not isinstance(x, kind)]",
    ),
    "a type returned": ("assert f(3) is int", "def f(a): return type(a)"),
    "an array as argument": (
        "from array import array\nassert f(array('i', [1, 2])) == array('i', [2, 4])",
        "from array import array\ndef f(a): return array('i', [2 * x for x in a])",
    ),
    "an array of numpy": (
        "import numpy as np\nassert (f(np.array([1, 2])) == np.array([2, 4])).all()",
        "def f(a): return 2 * a",
    ),
    "changed and returned": (
        "x = [3, 1, 2]\ny = f(x)\nassert y == [1, 2, 3]\nassert x == [1, 2, 3]",
        "def f(a):\n    a.sort()\n    return a",
    ),
    "changed and returned, in one statement": (
        "x = [3, 1, 2]\nassert f(x) == [1, 2, 3] and x == [1, 2, 3]",
        "def f(a):\n    a.sort()\n    return a",
    ),
    "changed and nothing returned": (
        "x = {'a': [1]}\nassert f(x) is None and x == {'a': [1, 2], 'b': 3}",
        "def f(a):\n    a['a'].append(2)\n    a['b'] = 3",
    ),
    "rows sorted stay themselves": (
        "one, two = [2], [1]\nx = [one, two]\nf(x)\nassert x[0] is two and one == [2]",
        "def f(a): a.sort()",
    ),
    "standard output": (
        "import io\nfrom contextlib import redirect_stdout\nout = io.StringIO()\n"
        "with redirect_stdout(out):\n    f('a')\nassert out.getvalue() == 'hello a\\n'",
        "def f(a): print('hello', a)",
    ),
    "capsys": (
        "def test_out(capsys):\n    f('a')\n    assert capsys.readouterr().out == 'hello a\\n'",
        "def f(a): print('hello', a)",
    ),
    "patched output": (
        "import io\nfrom unittest.mock import patch\n"
        "with patch('sys.stdout', new_callable=io.StringIO) as out:\n    f('a')\n"
        "assert out.getvalue() == 'hello a\\n'",
        "def f(a): print('hello', a)",
    ),
    "patched input": (
        "from unittest.mock import patch\nwith patch('builtins.input', return_value='7'):\n"
        "    assert f() == 7",
        "def f(): return int(input('n? '))",
    ),
    "asyncio.run": (
        "import asyncio\nassert asyncio.run(f(2)) == 4",
        "import asyncio\nasync def f(a):\n    await asyncio.sleep(0)\n    return 2 * a",
    ),
    "await": (
        "async def test_f():\n    assert await f(2) == 4",
        "async def f(a): return 2 * a",
    ),
    "gather": (
        "import asyncio\nasync def test_f():\n"
        "    assert await asyncio.gather(f(1), f(2)) == [2, 4]",
        "async def f(a): return 2 * a",
    ),
    "a generator without end": (
        "import itertools\nassert list(itertools.islice(f(), 3)) == [0, 1, 2]\n"
        "g = f()\nassert (next(g), next(g)) == (0, 1)",
        "import itertools\ndef f():\n    yield from itertools.count()",
    ),
    "a function as argument": (
        "assert f(len, ['a', 'bb']) == [1, 2]\nassert f(lambda x: x + x, [1]) == [2]",
        "def f(g, xs): return [g(x) for x in xs]",
    ),
    "a function that is returned": ("assert f(2)(3) == 5", "def f(a): return lambda b: a + b"),
    "a context manager": (
        "with Box() as box:\n    box.put(3)\nassert box.items == [3]",
        "class Box:\n    def __enter__(s):\n        s.items = []\n        return s\n"
        "    def __exit__(s, *a): pass\n    def put(s, x): s.items.append(x)",
    ),
    "several of a module": (
        "from solution import f, g\nassert f(1) == 2\nassert g(1) == 3",
        "def f(a): return a + 1\ndef g(a): return a + 2",
    ),
    "two functions without an entry point": (
        "assert decode(encode('ab')) == 'ab'",
        "def encode(s): return s[::-1]\ndef decode(s): return s[::-1]",
    ),
    "random numbers of the tests": (
        "import random\nxs = [random.random() for _ in range(3)]\nassert f(xs) == max(xs)",
        "def f(xs): return max(xs)",
    ),
    "an enumeration": (
        "assert f(1) == Colour.RED",
        "from enum import Enum\nclass Colour(Enum):\n    RED = 1\ndef f(a): return Colour(a)",
    ),
    "a data class": (
        "assert f(1) == Pair(1, 2)\nassert f(1).b == 2",
        "from dataclasses import dataclass\n@dataclass\nclass Pair:\n    a: int\n    b: int\n"
        "def f(a): return Pair(a, a + 1)",
    ),
}
"""Tests and a program that is right; without an entry point."""
