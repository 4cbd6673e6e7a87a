"""A checker and a searcher that share nothing with the package: exact fractions, every order."""

from fractions import Fraction
from itertools import permutations


def value_of(first, operator, second):
    """What a step gives as an exact fraction; None for a division by nothing."""
    a, b = Fraction(first), Fraction(second)
    if operator == "/":
        return a / b if b else None
    return {"+": a + b, "-": a - b, "*": a * b}[operator]


def allowed(value):
    return value is not None and value.denominator == 1 and 1 <= value <= 99


def derivations(numbers):
    """Every derivation of the numbers, as text, with its end. Slow: only for three or four."""
    found = {}

    def go(left, said):
        if len(left) == 1:
            found[" , ".join(said)] = int(left[0])
            return
        for a, b, *rest in set(permutations(left)):
            for operator in "+-*/":
                value = value_of(a, operator, b)
                if allowed(value):
                    go((*rest, int(value)), (*said, f"{a} {operator} {b} = {int(value)}"))

    go(tuple(numbers), ())
    return found
