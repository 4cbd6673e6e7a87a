import ast

import pytest

from dph_corpus.synth.hard_coded import mutants, stubs

PROGRAM = '''\
def f(a, b=2):
    """Says 1 + 1."""
    if a < b and not b:
        return [x * 2 for x in range(a) if x != 3]
    total = -1
    total += a ** b
    return "x" if total in (1, 2) else None
'''


def test_every_mutant_is_a_program_that_differs_from_it_in_one_place():
    found = mutants(PROGRAM, most=99)
    assert len(set(found)) == len(found) >= 15
    original = ast.unparse(ast.parse(PROGRAM)).splitlines()
    for text in found:
        changed = [
            pair for pair in zip(text.splitlines(), original, strict=True) if len({*pair}) > 1
        ]
        assert len(changed) == 1
        assert "Says 1 + 1" in text


@pytest.mark.parametrize("most", [0, 1, 5])
def test_at_most_so_many_are_spread_over_the_program(most):
    every = mutants(PROGRAM, most=99)
    found = mutants(PROGRAM, most=most)
    assert len(found) == most
    assert set(found) <= set(every)


def test_stubs_do_no_work():
    none, first = stubs(PROGRAM, "f")
    assert none == "def f(a, b=2):\n    return None"
    assert first == "def f(a, b=2):\n    return a"
    assert stubs("def f():\n    return 1", "f") == ["def f():\n    return None"]
