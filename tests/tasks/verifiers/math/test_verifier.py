import hashlib
import os
import random
import re
from contextlib import closing
from fractions import Fraction
from math import factorial

import pyarrow.parquet as pq
import pytest

from dph._base.provenance import install_command
from dph._processes.workers.handler import memory_bytes
from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.tasks.verifiers.math import verifier as pooled
from dph.tasks.verifiers.math.verifier import MathPair, MathVerifier
from dph.tasks.verifiers.qwen.verifier import MathQwenVerifier
from shared_data import SOME_AND_ALL, shared_data

pytest.importorskip("math_verify")

VERIFIERS = (MathVerifier, MathQwenVerifier)
CASES = "math/scored_cases_examples.parquet"

SLOW_ATTACKS = {
    "tower": r"\boxed{9^{9^{9^9}}}",
    "factorials": r"\boxed{(((10!)!)!)!}",
    "product": r"\boxed{\prod_{n=1}^{10^9} n}",
}
ATTACKS = {
    "plain tower": "9**9**9**9",
    "factorial": r"\boxed{99999999!}",
    "braces": r"\boxed{" + "{" * 5000 + "1" + "}" * 5000 + "}",
    "parentheses": r"\boxed{" + "(" * 2000 + "1" + ")" * 2000 + "}",
    "fractions": r"\boxed{" + r"\frac{1}{" * 500 + "2" + "}" * 500 + "}",
    "roots": r"\boxed{\sqrt{" * 300,
    "digits": "9" * 1_000_000,
    "boxed digits": r"\boxed{" + "9" * 1_000_000 + "}",
    "decimals": r"\boxed{0." + "3" * 4000 + "}",
    "infinite number": r"\boxed{1e999999999}",
    "large power": r"\boxed{2^{100000000}}",
    "open boxes": r"\boxed{" * 5000,
    "many boxes": r"\boxed{1} and " * 20_000,
    "answers": "answer " * 30_000,
    "dollars": "$" * 50_000,
    "equals": "answer is " + "=" * 100_000,
    "backslashes": "\\" * 100_000,
    "blanks": r"\boxed{" + " " * 100_000 + "}",
    "units": "he answer is " + "1 cm " * 20_000,
    "code": r"\boxed{__import__('os').system('touch attacked')}",
    "bare code": "the answer is __import__('os').system('touch attacked')",
    "matrix": r"\boxed{\begin{pmatrix}" + "1&" * 1500 + r"\end{pmatrix}}",
    "binomial": r"\boxed{\binom{10^{9}}{5\cdot 10^{8}}}",
    "not text": "\x00\ud800\udfff",
    "ten megabytes": "{" * 10_000_000,
    "a million boxes": r"\boxed{7}" * 1_000_000,
    "digits of other scripts": "\\boxed{\u0665\uff15\u2075\u2464}",
    "invisible characters": "\\boxed{\u200b\ufeff\u202e}",
    "nested environments": r"\boxed{" + r"\begin{pmatrix}" * 200 + r"\end{pmatrix}" * 200 + "}",
    "input": r"\boxed{\input{/etc/passwd}\write18{touch attacked}}",
    "subclasses": r"\boxed{().__class__.__bases__[0].__subclasses__()}",
    "not a number": "the answer is NaN",
    "infinity": r"\boxed{-inf}",
    "factorials of factorials": r"\boxed{5" + "!" * 200 + "}",
    "number words": "the answer is " + "one hundred " * 200_000,
    "nested texts": r"\boxed{" + r"\text{" * 49 + "5" + "}" * 49 + "}",
    "percents": r"\boxed{" + r"\%" * 2000 + "}",
    "many and": r"\boxed{1}" + " and " * 100_000 + r"\boxed{2}",
}
QUICK = (
    *("braces", "decimals", "code", "bare code", "not text", "subclasses", "infinity", "percents"),
)


def verdicts(verifier, pairs):
    return [
        judged.verdict.outcome for judged in verifier.judge([MathPair(*pair) for pair in pairs])
    ]


@pytest.fixture(scope="module", params=VERIFIERS, ids=lambda kind: kind.name)
def verifier(request):
    with closing(request.param(workers=2, timeout=3.0)) as made:
        yield made


def problem(gold):
    return Problem(problem_id="p", prompt="?", answer={"answer": gold})


def test_problems_are_graded_by_their_answer_and_one_without_is_an_error_that_names_it(verifier):
    graded = verifier.grade([problem("5"), problem(5), problem("x")], [r"\boxed{5}"] * 3)
    assert [verdict.reward for verdict in graded] == [1.0, 1.0, 0.0]
    with pytest.raises(DataError, match="needs 'answer' in problem 'p'"):
        verifier.grade([Problem(problem_id="p", prompt="?", answer={})], ["5"])


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(pooled, "find_spec", lambda name: None if "verify" in name else name)
    with pytest.raises(SettingsError, match=re.escape(f"math_verify: {install_command('math')}")):
        MathVerifier()


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param([*ATTACKS, "tower"], marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_attacks_change_no_other_verdict_and_none_is_right(verifier, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = [
        (rf"\frac{{{n}}}{{7}}", rf"\boxed{{\frac{{{2 * n}}}{{14}}}}")
        for n in range(1, 101 if len(names) > 9 else 21)
    ]
    attacks = [("x^2 + 7", (ATTACKS | SLOW_ATTACKS)[name]) for name in names]
    mixed = [*good, *attacks]
    random.Random(0).shuffle(mixed)
    before = memory_bytes(resident=True)
    outcomes = dict(zip(mixed, verdicts(verifier, mixed), strict=True))
    assert memory_bytes(resident=True) - before < 200_000_000
    assert all(outcomes[pair] == Outcome.CORRECT for pair in good)
    assert Outcome.CORRECT not in [outcomes[pair] for pair in attacks]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "names", [["tower"], pytest.param([*SLOW_ATTACKS], marks=pytest.mark.slow)], ids=["one", "all"]
)
def test_what_hangs_is_killed_and_says_so(verifier, names):
    outcomes = verdicts(verifier, [("x^2 + 7", SLOW_ATTACKS[name]) for name in names])
    assert set(outcomes) == {Outcome.TIMED_OUT}


def cases(columns):
    return pq.read_table(shared_data(CASES), columns=["gold", "response", *columns]).to_pylist()


@SOME_AND_ALL
def test_math_agrees_with_the_labels_and_never_accepts_a_near_miss(every):
    rows = [row for row in cases(["label", "variant", "group"]) if row["group"] == "gold_variants"]
    rows = rows[::every]
    with closing(MathVerifier(workers=2)) as math:
        outcomes = verdicts(math, [(row["gold"], row["response"]) for row in rows])
    graded = [
        (row, outcome == Outcome.CORRECT) for row, outcome in zip(rows, outcomes, strict=True)
    ]
    labelled = [row["label"] == right for row, right in graded if row["label"] is not None]
    assert sum(labelled) >= 0.99 * len(labelled)
    near = {"times100", "plus1", "negated", "inverted", "wrong_frac", "swapped"}
    assert not [row for row, right in graded if right and row["variant"] in near]


@SOME_AND_ALL
def test_math_qwen_agrees_with_the_tool(every):
    rows = cases(["group", "qwen_tool"])[::every]
    with closing(MathQwenVerifier(workers=2)) as qwen:
        outcomes = verdicts(qwen, [(row["gold"], row["response"]) for row in rows])
    missed = [
        row["group"]
        for row, outcome in zip(rows, outcomes, strict=True)
        if row["qwen_tool"] != (outcome == Outcome.CORRECT)
    ]
    assert {
        group for group in missed if group not in ("gold_variants", "mathverify_tests")
    } == set()
    assert len(missed) <= max(every > 1, 0.002 * len(rows))


# Each costs a parse by sympy: `make fuzz` tries them all.
GENERATED = 10_000 if os.environ.get("DPH_FUZZ") == "full" else 500
FEW = 40


def fuzzed(rng):
    """A gold that nothing equals, and a response of any characters."""
    letters = r"\{}$^_()[],.=+-*/!%&~ 0123456789xyie" + "\n\u221e\u00bd"
    pieces = [r"\frac", r"\sqrt", r"\boxed{", "and", "answer is ", r"\text{", r"\\"]
    text = "".join(
        rng.choice([*pieces, r"\begin{pmatrix}"]) if rng.random() < 0.15 else rng.choice(letters)
        for _ in range(rng.randint(0, 40))
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"q_{{{int(digest[:6], 16) + 10**7}}}", rf"\boxed{{{text}}}"


@pytest.mark.parametrize(
    ("seed", "count"),
    [(2, FEW), pytest.param(0, GENERATED, marks=pytest.mark.slow)],
)
def test_generated_inputs_neither_crash_nor_pass(verifier, seed, count):
    rng = random.Random(seed)
    outcomes = set(verdicts(verifier, [fuzzed(rng) for _ in range(count)]))
    assert not outcomes & {Outcome.CRASHED, Outcome.CORRECT}


@SOME_AND_ALL
def test_every_wrong_answer_has_a_reason_that_names_it_and_the_gold(every):
    rows = pq.read_table(shared_data(CASES)).to_pylist()[:300:every]
    pairs = [MathPair(row["gold"], row["response"]) for row in rows]
    with MathVerifier(workers=2, timeout=20.0) as verifier:
        verdicts = [judged.verdict for judged in verifier.judge(pairs)]
    wrong = [verdict.reason for verdict in verdicts if verdict.outcome is Outcome.WRONG]
    assert len(wrong) > 50 / every
    assert all(" is not " in reason and "the answer'" not in reason for reason in wrong)


PAIRS = 100_000 if os.environ.get("DPH_FUZZ") == "full" else 2_000
WIDE = str.maketrans({chr(c): chr(c + 0xFEE0) for c in b"0123456789+-/=<>()[],.%"})
RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
VULGAR = {Fraction(1, 2): "½", Fraction(1, 4): "¼", Fraction(3, 4): "¾", Fraction(2, 3): "⅔"}
INF = "inf"


# Numbers: a value is a Fraction, or (a, b, d) for a + b sqrt(d) with d square-free.


def plain(value, rng):
    if value.denominator == 1:
        return grouped(value.numerator, rng)
    sign, top = "-" * (value < 0), abs(value.numerator)
    slash = f"{top}/{value.denominator}"
    k = rng.randint(2, 9)
    ways = [
        f"{sign}\\frac{{{top}}}{{{value.denominator}}}",
        f"{sign}\\dfrac{{{k * top}}}{{{k * value.denominator}}}",
        f"\\frac{{{sign}{top}}}{{{value.denominator}}}",
        sign + slash,
        f"{sign}({top})/({value.denominator})",
    ]
    whole, rest = divmod(abs(value), 1)
    if whole and rest:
        proper = f"\\frac{{{rest.numerator}}}{{{rest.denominator}}}"
        ways += [f"{sign}{whole} {rest.numerator}/{rest.denominator}", f"{sign}{whole}{proper}"] * 2
    if rest in VULGAR:
        ways += [f"{sign}{whole or ''}{VULGAR[rest]}"] * 2
    if (decimal := repeating(abs(value), rng)) is not None:
        ways += [sign + decimal] * 2
    return rng.choice(ways)


def grouped(number, rng):
    digits = str(abs(number))
    threes = [digits[max(0, i - 3) : i] for i in range(len(digits), 0, -3)][::-1]
    sign = rng.choice("-\u2212") if number < 0 else ""
    separators = ["", "", ",", "{,}", " ", "\\,", "\u2009", "\u202f", "'"]
    return sign + (rng.choice(separators)).join(threes)


def repeating(value, rng):
    whole, rest = divmod(value.numerator, value.denominator)
    seen, digits = {}, ""
    while rest and rest not in seen and len(digits) < 9:
        seen[rest] = len(digits)
        rest *= 10
        digits += str(rest // value.denominator)
        rest %= value.denominator
    if not rest or rest not in seen:
        return None
    head, period = digits[: seen[rest]], digits[seen[rest] :]
    dots = f"\\dot{{{period[0]}}}" + (f"{period[1:-1]}\\dot{{{period[-1]}}}" if period[1:] else "")
    bars = [f"\\overline{{{period}}}", f"\\bar{{{period}}}", dots, f"({period})"]
    bars += ["".join(f"{digit}\u0305" for digit in period), period * 4 + "\\ldots"]
    return f"{whole}.{head}{rng.choice(bars)}"


def power(base, exponent, rng):
    ways = [f"{base}^{{{exponent}}}", f"{base}**{exponent}", f"{base}^({exponent})"]
    return rng.choice([*ways, f"{base}{str(exponent).translate(RAISED)}"])


def root(d, rng):
    return rng.choice([f"\\sqrt{{{d}}}", f"sqrt({d})", f"√{d}", f"\\sqrt{{{d}}}", f"√({d})"])


def surd(value, rng):
    """``a + b sqrt(d)``, with a common denominator or without, or with b below the root."""
    a, b, d = value
    if b.denominator == 1 and rng.random() < 0.3:
        term, minus = root(b.numerator**2 * d, rng), b < 0
    else:
        size, minus = abs(b), b < 0
        top = "" if size.numerator == 1 else str(size.numerator)
        star = rng.choice(["", "*", "\\cdot ", "·"]) if top else ""
        term = f"{top}{star}{root(d, rng)}"
        if size.denominator > 1:
            term = rng.choice(
                [f"\\frac{{{term}}}{{{size.denominator}}}", f"{term}/{size.denominator}"]
            )
    sign, top = "-" * (a < 0), abs(a.numerator)
    first = sign + (f"\\frac{{{top}}}{{{a.denominator}}}" if a.denominator > 1 else str(top))
    if not a:
        return "-" * minus + term
    if rng.random() < 0.3:
        return f"{'-' * minus}{term} {'+' if a > 0 else ''}{first}"
    return f"{first}{rng.choice([' ', ''])}{'-' if minus else '+'}{rng.choice([' ', ''])}{term}"


def number(value, rng):
    return plain(value, rng) if isinstance(value, Fraction) else surd(value, rng)


def some_number(rng):
    if rng.random() < 0.3:
        b = Fraction(rng.choice([-3, -2, -1, 1, 2, 3, 5]), rng.choice([1, 1, 2, 3]))
        a = Fraction(rng.randint(-9, 9), rng.choice([1, 1, 2]))
        return (a, b, rng.choice([2, 3, 5, 6, 7, 10]))
    return Fraction(
        rng.choice([rng.randint(-20, 20), rng.randint(-(10**7), 10**7)]),
        rng.choice([1, 1, 2, 3, 4, 6, 7, 9, 11, 12, 37, 99]),
    )


def other_number(value, rng):
    if isinstance(value, tuple):
        a, b, d = value
        ways = [(a + 1, b, d), (a, -b, d), (a, b, 13), (a, b + 1 or Fraction(2), d), (-a, b, d)]
        return rng.choice([way for way in ways if way != value])
    ways = [value + 1, value - 1, value * 10, value * 100, value / 100, -value]
    ways += [value + Fraction(1, 7), 1 / value if value else Fraction(1), Fraction(value.numerator)]
    return rng.choice([way for way in ways if way != value])


# Kinds of answers: each gives a value, one near it, and spells a value.


def exact_pair(rng):
    n, k = rng.randint(55, 900), rng.randint(1, 3)
    near = rng.choice([0, 1, 2, 3])
    if near == 0:
        return Fraction(1, factorial(n)), Fraction(1, factorial(n + k)), "factorial"
    if near == 1:
        return Fraction(1, 2**n), Fraction(1, 2 ** (n + k)), "power"
    if near == 2:
        return 1 - Fraction(1, 2**n), 1 - Fraction(1, 2 ** (n + k)), "below"
    return Fraction(2**n), Fraction(2**n + k), "large"


def exact(value, kind, rng):
    if kind == "factorial":
        n = next(n for n in range(1, 2000) if factorial(n) == value.denominator)
        ways = [f"\\frac{{1}}{{{n}!}}", f"1/{n}!", f"\\frac{{{n + 1}}}{{{n + 1}!}}"]
    elif kind == "large":
        n = value.numerator.bit_length() - 1
        rest = value.numerator - 2**n
        more = f"+{rest}" if rest else ""
        ways = [power(2, n, rng) + more, f"2 \\cdot {power(2, n - 1, rng)}{more}"]
        ways += [f"2*{power(2, n - 1, rng)}{more}"]
    else:
        n = value.denominator.bit_length() - 1
        ways = [f"\\frac{{1}}{{{power(2, n, rng)}}}", power(2, -n, rng)]
        ways += [
            f"\\left(\\frac{{1}}{{2}}\\right)^{{{n}}}",
            f"\\frac{{1}}{{2 \\cdot 2^{{{n - 1}}}}}",
        ]
        ways = [f"1-{way}" for way in ways] if kind == "below" else ways
    return rng.choice(ways)


def some_interval(rng):
    low, high = sorted(Fraction(rng.randint(-40, 40), rng.choice([1, 1, 2, 3])) for _ in "ab")
    low, high = (low, high) if low < high else (low, low + 1)
    ends = rng.choice([(low, high)] * 3 + [(INF, high), (low, INF)])
    return (*ends, ends[0] != INF and rng.random() < 0.5, ends[1] != INF and rng.random() < 0.5)


def other_interval(value, rng):
    low, high, closed, closed_too = value
    ways = []
    if low != INF:
        ways += [(low, high, not closed, closed_too), (low - 1, high, closed, closed_too)]
    if high != INF:
        ways += [(low, high, closed, not closed_too), (low, high + 1, closed, closed_too)]
    return rng.choice(ways)


def interval(value, name, rng):
    low, high, closed, closed_too = value
    one = plain_end(low, rng) if low != INF else rng.choice(["-\\infty", "-∞", "-oo"])
    other = plain_end(high, rng) if high != INF else rng.choice(["\\infty", "∞", "+\\infty", "oo"])
    left, right = ("[" if closed else rng.choice("(]")), ("]" if closed_too else rng.choice(")["))
    within = rng.choice(["", f"{name} \\in ", f"{name} ∈ "])
    less = [rng.choice(["\\le", "\\leq", "≤", "<="]) if c else "<" for c in (closed, closed_too)]
    more = [rng.choice(["\\ge", "\\geq", "≥", ">="]) if c else ">" for c in (closed, closed_too)]
    if low == INF:
        chains = [f"{name} {less[1]} {other}", f"{other} {more[1]} {name}"]
    elif high == INF:
        chains = [f"{name} {more[0]} {one}", f"{one} {less[0]} {name}"]
    else:
        chains = [f"{one} {less[0]} {name} {less[1]} {other}"]
        chains += [f"{other} {more[1]} {name} {more[0]} {one}"]
        chains += [f"{name} {more[0]} {one} \\text{{ and }} {name} {less[1]} {other}"]
    brackets = f"{within}{left}{one}, {other}{right}"
    chain = rng.choice([*chains, f"\\{{{name} \\mid {chains[0]}\\}}"])
    return rng.choice([brackets, chain])


def plain_end(value, rng):
    top, bottom = value.numerator, value.denominator
    return (
        str(top) if bottom == 1 else rng.choice([f"\\frac{{{top}}}{{{bottom}}}", f"{top}/{bottom}"])
    )


def several(values, left, right, rng):
    return left + ", ".join(comma_free(value, rng) for value in values) + right


def comma_free(value, rng):
    text = number(value, rng)
    return text if "," not in text and "\\," not in text else comma_free(value, rng)


WRAPPED = [
    "\\boxed{{{}}}",
    "so it is $\\boxed{{{}}}$.",
    "<think>Perhaps \\boxed{{1}}? No: \\boxed{{{other}}}.</think>It is \\boxed{{{}}}.",
    "\\boxed{{{}}} as asked, in \\boxed{{}}.",
    "first \\boxed{{{other}}}, but that is wrong. Now \\boxed{{{}}} is right",
    "<answer>\\boxed{{{}}}</answer>",
    "The final answer is ${}$.",
]


def generated(rng):
    """A response, a gold, and whether they have the same value."""
    same = rng.random() < 0.5
    kind = rng.random()
    if kind < 0.2:
        value, near, how = exact_pair(rng)
        gold, right, wrong = (exact(each, how, rng) for each in (value, value, near))
    elif kind < 0.75:
        value = some_number(rng)
        near = other_number(value, rng)
        gold, right, wrong = (number(each, rng) for each in (value, value, near))
        if rng.random() < 0.15:
            right, wrong = right.translate(WIDE), wrong.translate(WIDE)
    elif kind < 0.95:
        value, name = some_interval(rng), rng.choice(["x", "m", "\\theta"])
        near = other_interval(value, rng)
        gold, right, wrong = (interval(each, name, rng) for each in (value, value, near))
    else:
        values = [some_number(rng) for _ in range(rng.randint(2, 3))]
        while len({str(value) for value in values}) < len(values):
            values = [some_number(rng) for _ in values]
        place = rng.randrange(len(values))
        other = [other_number(v, rng) if i == place else v for i, v in enumerate(values)]
        left, right_bracket = rng.choice([("(", ")"), ("\\{", "\\}")])
        shuffled = rng.sample(values, len(values)) if left == "\\{" else values
        gold = several(values, left, right_bracket, rng)
        right = several(shuffled, left, right_bracket, rng)
        wrong = several(other, left, right_bracket, rng)
        if len({str(value) for value in other}) < len(other):
            same = True
    response = rng.choice(WRAPPED).format(right if same else wrong, other=wrong if same else right)
    return response, gold, same


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 60), pytest.param(2, PAIRS, marks=pytest.mark.slow)]
)
def test_generated_pairs_are_right_if_their_values_are_the_same(seed, count):
    rng = random.Random(seed)
    pairs = [generated(rng) for _ in range(count)]
    with MathVerifier(workers=2, timeout=30.0) as verifier:
        judged = verifier.judge([MathPair(gold, response) for response, gold, _ in pairs])
    wrong = [
        (response, gold, same, verdict.verdict.outcome)
        for (response, gold, same), verdict in zip(pairs, judged, strict=True)
        if (verdict.verdict.outcome is Outcome.CORRECT) != same
    ]
    assert wrong == []
