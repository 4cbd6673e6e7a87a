"""200 small programming problems with solutions and mutants, in the shapes of three data sets.

Forty functions with a parameter from 1 to 5 each. A third of the problems is asked as HumanEval
does (the solution goes on with a prefix, a ``check`` tests it), a third as MBPP (asserts), a third
as LiveCodeBench (a program reads JSON and prints JSON). The expected values are the solution's own.
A mutant is the solution with one operator or number changed, such that one of the tests shows it.
"""

import ast
import copy
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

ARGUMENTS = {
    "n": lambda draw: draw.randint(0, 40),
    "m": lambda draw: draw.randint(1, 12),
    "xs": lambda draw: [draw.randint(-9, 9) for _ in range(draw.randint(1, 8))],
    "ys": lambda draw: [draw.randint(0, 5) for _ in range(draw.randint(1, 8))],
    "s": lambda draw: "".join(draw.choice("abcAB ,1") for _ in range(draw.randint(1, 14))),
}

BODIES = """
n | return n * K + 1
n m | return (n + K) % m
n | return sum(i for i in range(n) if i % (K + 1) == 0)
n | return [i * i - K for i in range(n // 4)]
xs | return [x + K for x in xs if x > 0]
xs | return sorted(xs, key=lambda x: (abs(x - K), x))
xs | return max(xs) - min(xs) + K
xs | return sum(x * x for x in xs) // K
xs | return [x for i, x in enumerate(xs) if i % (K + 1) == 0]
xs | return xs[K % len(xs):] + xs[:K % len(xs)]
xs ys | return sum(x * y for x, y in zip(xs, ys)) + K
xs | return {x: xs.count(x) for x in xs if xs.count(x) <= K}
s | return s.upper() + str(len(s) + K)
s | return "".join(chr(ord(c) + K) if c.islower() else c for c in s)
s | return s[::-1][:K + 2]
s | return sorted(set(s.lower()))[:K + 1]
s | return sum(c in "aeiou" for c in s) + K
s m | return s * (m % K + 1)
s | return {c: s.count(c) for c in s if s.count(c) >= K}
ys | return all(y <= K for y in ys)
ys | return any(y == K for y in ys) and len(ys) > K
ys | return [y for y in ys if y % 2 == K % 2]
n m | return divmod(n + K, m)
n m | return (n ** K) % m
n m | return [n // m + K, n % m]
n | return bin(n + K)[2:]
n | return sum(int(c) for c in str(n * K))
n | a, b = 0, K; [a := b + 0 * (b := a + b) for _ in range(n // 2)]; return a
xs | t = 0; r = [t := t + x for x in xs]; return [t + K for t in r]
xs | best = 0; c = 0; r = [best := max(best, c := max(0, c + x)) for x in xs]; return best + K
ys | return [ys[i] - ys[i - 1] for i in range(1, len(ys))] + [K]
ys m | return ys.index(m) + K if m in ys else -K
xs m | return [xs[i:i + m] for i in range(0, len(xs), m)][:K]
xs | return [x if x < K else -x for x in xs]
n | return [d for d in range(1, n + K) if (n + K) % d == 0]
n | return all((n + K) % d for d in range(2, n + K)) and n + K > 1
n m | a, b = n + K, m; r = [(a := b, b := t) for _ in range(20) if b and (t := a % b)]; return b
s | return s.replace("a", "b" * K).count("b")
s | return [len(w) + K for w in s.split(",")]
xs | return sum(xs[i] > xs[j] + K for i in range(len(xs)) for j in range(i + 1, len(xs)))
""".strip().splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A problem's answer fields, a response that is right, and one that is wrong."""

    name: str
    shape: str
    answer: dict[str, Any]
    right: str
    wrong: str


def examples(seed: int = 0) -> list[Example]:
    """The problems, the same for the same seed.

    Raises:
        RuntimeError: a solution has no mutant that its tests show.
    """
    made = []
    for index, line in enumerate(BODIES):
        names, _, body = line.partition("|")
        for k in range(1, 6):
            draw = random.Random(f"{seed} {index} {k}")
            shape = ("humaneval", "mbpp", "livecodebench")[(index + k) % 3]
            statements = [part.strip().replace("K", str(k)) for part in body.split(";")]
            made.append(_example(f"f{index}_{k}", names.split(), statements, shape, draw))
    return made


def _example(
    name: str, names: Sequence[str], body: list[str], shape: str, draw: random.Random
) -> Example:
    lines = "".join(f"    {line}\n" for line in body)
    head = f"def {name}({', '.join(names)}):\n"
    inputs = [[ARGUMENTS[each](draw) for each in names] for _ in range(8)]
    outputs = outputs_of(head + lines, name, inputs)
    wrong = next(
        (m for m in mutants_of(head + lines) if outputs_of(m, name, inputs) != outputs), None
    )
    if wrong is None:
        raise RuntimeError(f"no mutant of {name}: {lines}")
    calls = [f"{name}({', '.join(map(repr, given))})" for given in inputs]
    tests = [f"assert {call} == {out!r}" for call, out in zip(calls, outputs, strict=True)]
    if shape == "mbpp":
        return Example(
            name=name,
            shape=shape,
            answer={"tests": tests, "entry_point": name},
            right=head + lines,
            wrong=wrong,
        )
    if shape == "humaneval":
        check = "".join(f"    {test.replace(name, 'candidate')}\n" for test in tests)
        prefix = f'{head}    """One of the problems."""\n'
        answer = {
            "tests": [f"def check(candidate):\n{check}\ncheck({name})\n"],
            "entry_point": name,
            "setup": prefix,
            "prefix": prefix,
        }
        return Example(name=name, shape=shape, answer=answer, right=lines, wrong=wrong)
    ending = f"import json\nprint(json.dumps({name}(*json.loads(input())), sort_keys=True))\n"
    cases = [
        {"stdin": json.dumps(given), "stdout": json.dumps(out, sort_keys=True)}
        for given, out in zip(inputs, outputs, strict=True)
    ]
    return Example(
        name=name,
        shape=shape,
        answer={"cases": cases},
        right=head + lines + ending,
        wrong=wrong + "\n" + ending,
    )


def outputs_of(source: str, name: str, inputs: list[list[Any]]) -> list[Any] | None:
    """What a function of ours gives, None if it fails: mutants may."""
    names: dict[str, Any] = {}
    exec(source, names)
    try:
        return [names[name](*copy.deepcopy(given)) for given in inputs]
    except (ArithmeticError, LookupError, NameError, TypeError, ValueError):
        return None


_SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE,
    ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.And: ast.Or,
}  # fmt: skip


def mutants_of(source: str) -> Iterator[str]:
    """The source with one operator swapped, or one number one larger."""
    for index, _ in enumerate(ast.walk(ast.parse(source))):
        tree = ast.parse(source)
        node: Any = list(ast.walk(tree))[index]
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPPED:
            node.op = _SWAPPED[type(node.op)]()
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
            node.ops[0] = _SWAPPED[type(node.ops[0])]()
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            node.value += 1
        else:
            continue
        yield ast.unparse(tree)
