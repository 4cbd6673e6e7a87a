"""No test is run that would see what a call did to its arguments, and others are."""

import pytest

from dph._processes.sandbox.forms import plan
from dph._processes.sandbox.texts import TaskError

RUN = """\
x = [1]
assert f(x) == 1
---
x = [3, 1]
x.append(2)
assert f(x) == 1
x = [2]
assert f(x) == 2
---
def test_a():
    x = [3, 1]
    r = f(x)
    assert r == 1
    assert r > 0
def test_b():
    x = [3]
    assert f(x) == 1
---
cases = [([1], 2), ([3], 4)]
for given, expected in cases:
    r = f(given)
    assert r == expected, f"{given}"
---
inputs = [[[1]], [[2]]]
results = [1, 2]
def ref(x): return x
for i, (inp, exp) in enumerate(zip(inputs, results)):
    out = f(*inp)
    assert out == exp
---
for inp in [[[1]], [[2]]]:
    assert f(*inp) == sorted(*inp)
---
import random
for i in range(9):
    x, y = random.randint(1, 2), random.randint(3, 4)
    r = f(x, y)
    assert r == x + y
---
s = "abc"
e = f(s)
assert e == s[::-1]
assert len(e) == len(s)
---
import pytest
@pytest.mark.parametrize("s, n", [("a", 1), ("b", 2)])
def test_a(s, n):
    r = f(s)
    assert r != s
---
import copy
x = [1]
r = f(copy.deepcopy(x))
assert r == x
---
def check(candidate):
    G = [[1]]
    assert [candidate(g) for g in G] == G
---
def test_a():
    x = [2]
    assert f(x) == sorted(x), x
---
def same(x):
    assert f(x) == sorted(x)
for x in [[1], [2]]:
    same(x)
---
total = 0
for n in [1, 2]:
    total += n
assert f(total) == 3
assert f(total) == 3
---
x = [1]
for k in range(3):
    x = f(x)
assert x == [2]
---
import numpy as np
a = f([1, 2])
assert np.allclose(a, [1, 2]) and a[0] == 1
"""

REFUSED = """\
x: list = [1]
y: list = x
assert f(y) == 1
assert x == [1]
---
x = [3, 1]
f(x)
assert x == [1, 3]
---
x = [3, 1]
y = x
assert f(x) == 1
assert y == [3, 1]
---
x = [1]
for k in range(3):
    assert f(x, k) == k
---
def test_a():
    x = [3, 1]
    original = list(x)
    assert f(x) == 1
    assert x == original
---
X = [1]
def test_a():
    assert f(X) == 1
def test_b():
    assert X == [1]
---
def run(x):
    return f(x)
x = [1]
assert run(x) == 1
assert x == [1]
---
x = [1]
assert f(x) == 1 and x == [1]
---
x = [1]
assert (f(x), x) == (1, [1])
---
xs = [[1], [2]]
assert all(f(x) == 1 and x for x in xs)
---
cases = [[1], [2]]
for k in range(2):
    for c in cases:
        assert f(c) == k
---
x = [1]
if f(x) == 1:
    x = [2]
assert x == [2] and f(x) == 1
---
x = [1]
assert f(x) == 1
x += [2]
assert x == [1, 2]
---
x = [[1]]
row = x[0]
assert f(row) == 1
assert x == [[1]]
---
d = {"a": [1]}
for k, v in d.items():
    assert f(v) == 1
assert d == {"a": [1]}
---
import itertools
G = [[[1]]]
assert list(itertools.starmap(f, G)) == [1]
assert G == [[[1]]]
---
x = [1]
assert f(x) == f(x)
---
x = [1]
assert f(x) == 1
if len("a") == 2:
    x = [2]
else:
    assert x == [1]
---
import pytest
R = [([1], 1)]
@pytest.mark.parametrize("x, y", R)
def test_a(x, y):
    assert f(x) == y
def test_b():
    assert R == [([1], 1)]
---
x = [1]
assert f(y=x) == 1
assert x
---
x = [1]
assert f({"a": x}) == 1
assert x
---
def test_a():
    x = [1]
    g = lambda: x
    assert f(x) == 1
    assert g() == [1]
---
x = [1]
while len(x) < 2:
    assert f(x) == 1
---
s = "a"
s = [s]
r = f(s)
assert s == ["a"]
"""


def planned(text):
    return plan({"<test 1>": text}, "", "", "f")


def test_an_argument_that_nobody_looks_at_again_alone_may_be_given():
    for text in RUN.split("---\n"):
        assert planned(text)[1].program == {"f"}, text
    for text in REFUSED.split("---\n"):
        with pytest.raises(TaskError, match="an argument that is looked at again: "):
            planned(text)


def test_long_texts_take_no_time_that_grows_with_their_square():
    asserts = "\n".join(f"x = [{i}]\nr = f(x)\nassert r == {i}" for i in range(3000))
    data = f"G = {[[list(range(50))] for _ in range(1000)]!r}\nfor g in G:\n    assert f(*g) == 1"
    assert planned(asserts)[0][0].checks == 3000
    assert planned(data)[0][0].checks == 1
