"""Wrong programs, seen to differ for an input, and tests in every form that shows it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from lab.benchmarks.code_problems import ARGUMENTS, BODIES, mutants_of, outputs_of

LIES = {
    "None": "return None",
    "StopIteration": "raise StopIteration",
    "GeneratorExit": "raise GeneratorExit",
    "SystemExit": "raise SystemExit(0)",
    "an end": "import os; os._exit(0)",
    "an object": "return Equal()",
    "a list of objects": "return [Equal()] * 8",
    "a subclass": "return Text()",
    "a number": "return Number(7_654_321)",
    "NaN": "return float('nan')",
    "itself": "return f",
    "a class": "return Equal",
    "its argument": "return given[0]",
    "an emptied argument": "given[0].clear() if isinstance(given[0], list) else 0; return given[0]",
    "an infinite iterator": "import itertools; return itertools.repeat(Equal())",
    "a mock": "from unittest.mock import ANY; return ANY",
    "a coroutine": "return waits()",
}
_AROUND = """
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __bool__(self): return True
    def __hash__(self): return 0
    def __len__(self): return 3
    def __getitem__(self, key): return self
    def __iter__(self): return iter([self] * 3)
    def __contains__(self, item): return True
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __abs__(self): return 0
class Text(str):
    def __eq__(self, other): return True
    def __hash__(self): return 0
class Number(int):
    def __eq__(self, other): return True
    def __hash__(self): return 0
async def waits(): return Equal()
def f(*given): {lie}
"""

FORMS = {
    "asserts": "{setup}\nassert f(*G[0]) == E[0]\nassert f(*G[1]) == E[1]\nassert f(*G[2]) == E[2]",
    "a loop": "{setup}\nfor given, expected in zip(G, E):\n    assert f(*given) == expected",
    "all and map": "{setup}\nassert all(map(lambda g, e: f(*g) == e, G, E))",
    "two lists": "{setup}\nassert [f(*given) for given in G] == E",
    "a list of a map": "import itertools\n{setup}\nassert list(itertools.starmap(f, G)) == E",
    "not different": "{setup}\nfor g, e in zip(G, E):\n"
    "    if f(*g) != e:\n        raise ValueError(g)",
    "check": "{setup}\ndef check(candidate):\n"
    "    for given, expected in zip(G, E):\n        assert candidate(*given) == expected\n",
    "a reference": "{setup}\n{reference}\nfor given in G:\n    assert f(*given) == right(*given)",
    "pytest": "import pytest\n{setup}\n@pytest.mark.parametrize('given, expected', zip(G, E))\n"
    "def test_values(given, expected):\n    assert f(*given) == expected",
    "a class of pytest": "{setup}\nclass TestValues:\n    def test_values(self):\n"
    "        assert [f(*given) for given in G] == E",
    "approx": "import pytest\n{setup}\ndef test_values():\n"
    "    for g, e in zip(G, E):\n"
    "        assert f(*g) == (pytest.approx(e) if type(e) is int else e)",
    "evalplus": "{setup}\ndef assertion(out, exp):\n    assert out == exp\n"
    "def check(candidate):\n    for i, (inp, exp) in enumerate(zip(G, E)):\n"
    "        assertion(candidate(*inp), exp)",
    "a variable": "{setup}\ndef test_values():\n    for given, expected in zip(G, E):\n"
    "        result = f(*given)\n        assert result == expected, given",
    "an import": "from solution import f\n{setup}\ndef test_values():\n"
    "    for given, expected in zip(G, E):\n        assert f(*given) == expected",
    "returned": "{setup}\ndef test_values():\n    return all(f(*g) == e for g, e in zip(G, E))",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    tests: str
    right: str
    wrong: str
    form: str
    change: str


def wrong_programs(seed: int) -> Iterator[Wrong]:
    draw = random.Random(seed)
    while True:
        names, _, body = draw.choice(BODIES).partition("|")
        statements = [
            part.strip() for part in body.replace("K", str(draw.randint(1, 5))).split(";")
        ]
        source = f"def f({', '.join(names.split())}):\n" + "".join(f"    {s}\n" for s in statements)
        given = [[ARGUMENTS[each](draw) for each in names.split()] for _ in range(3)]
        expected = outputs_of(source, "f", given)
        found = _changed(source, given, expected, draw)
        if found is None:
            continue
        change, wrong = found
        form = draw.choice(list(FORMS))
        reference = source.replace("def f(", "def right(")
        setup = f"G = {given!r}\nE = {expected!r}"
        tests = FORMS[form].replace("{setup}", setup).replace("{reference}", reference)
        yield Wrong(tests=tests, right=source, wrong=wrong, form=form, change=change)


def _changed(source, given, expected, draw):
    if draw.random() < 0.25:
        lie = draw.choice(list(LIES))
        first = [each[0] for each in given]
        emptied = [[] if isinstance(each, list) else each for each in first]
        same = {"its argument": first, "an emptied argument": emptied}.get(lie)
        if same == expected:
            return None
        return lie, _AROUND.replace("{lie}", LIES[lie])
    wrong = draw.choice(list(mutants_of(source)))
    if draw.random() < 0.5:
        wrong = draw.choice(list(mutants_of(wrong)) or [wrong])
    return None if outputs_of(wrong, "f", given) == expected else ("a mutant", wrong)
