"""Equality of an answer and the gold in the Qwen2.5-Math evaluation tool; both in its spelling.

Numbers are equal within a relative 1e-4, and a factor of 100 either way is forgiven as percent.
"""

import ast
import contextlib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import sympy
from sympy.parsing.latex import parse_latex

from dph._processes.workers.handler import Handler, TellStage, limit_address_space
from dph.records import Outcome
from dph.tasks.verifiers.qwen.verifier import qwen_answer

# The parser of LaTeX stops without a word at the first thing it does not know (``1,2`` is 1): one
# more reason not to train with this verifier. Where the tool would hand text to ``eval``, a walk
# over the syntax tree takes its place; the LaTeX parser understands nearly all before it.

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_CONSTANTS = {"pi": sympy.pi, "E": sympy.E, "I": sympy.I, "oo": sympy.oo}


def is_close(one: float, other: float) -> bool:
    """Within 1e-4 of the larger, the tool's tolerance for numbers."""
    return math.isclose(one, other, rel_tol=1e-4)


def symbolically_equal(answer: str, gold: str) -> bool:
    r"""True if sympy finds two texts equal, in any of the tool's ways.

    >>> symbolically_equal(r"\frac{x}{2} + \frac{x}{2}", "x"), symbolically_equal("x", "y")
    (True, False)
    """
    one, other = _parse(answer), _parse(gold)
    for test in _TESTS:
        with contextlib.suppress(Exception):  # inside sympy: it counts as no, as in the tool
            if test(one, other):
                return True
    return False


@lru_cache(maxsize=4096)
def _parse(text: str) -> Any:
    for reader in (parse_latex, _parse_plain):
        for spelling in dict.fromkeys((text.replace("\\\\", "\\"), text)):
            # Whatever a reader raises, the next one is asked: that is the tool's rule.
            with contextlib.suppress(Exception):
                return reader(spelling)
    return text


def _same_matrix(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    rounded = [matrix.applyfunc(lambda entry: round(entry, 3)) for matrix in (one, other)]
    return bool(rounded[0].equals(rounded[1]))


_TESTS: tuple[Callable[[Any, Any], object], ...] = (
    lambda one, other: str(one) == str(other) or one == other,
    lambda one, other: one.equals(other),
    lambda one, other: sympy.simplify(one - other) == 0,
    lambda one, other: abs(one.lhs - one.rhs).equals(abs(other.lhs - other.rhs)),
    lambda one, other: is_close(float(sympy.N(one)), float(sympy.N(other))),
    _same_matrix,
)


def _parse_plain(text: str) -> Any:
    """Arithmetic, names, tuples and lists in Python's notation."""
    return _build(ast.parse(text, mode="eval").body)


def _build(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return sympy.Integer(value) if isinstance(value, int) else sympy.Float(str(value))
        case ast.Name(id=name):
            return _CONSTANTS.get(name, sympy.Symbol(name))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_build(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _build(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_build(left), _build(right))
        case ast.Tuple(elts=parts):
            return tuple(_build(part) for part in parts)
        case ast.List(elts=parts):
            return [_build(part) for part in parts]
    raise ValueError(f"{ast.dump(node)[:100]} is not plain arithmetic")


_CHOICE = re.compile(r"\b[ABCDE]\b")
_BRACKETED = re.compile(r"[(\[].+[)\]]")
_BRACED_LIST = re.compile(r"\{.*,.*\}")
_BRACKETS = re.compile(r"[{}()]")
_MATRIX_BEGIN, _MATRIX_END = r"\begin{pmatrix}", r"\end{pmatrix}"


def qwen_equal(answer: str, gold: str) -> bool:
    r"""True if the tool takes the answer as equal to the gold.

    >>> qwen_equal("(1,\\frac{4}{2})", "(1,2)"), qwen_equal("500", "5"), qwen_equal("6", "5")
    (True, True, False)
    """
    if answer.strip().lower() == gold.strip().lower():
        return True
    if gold in ("A", "B", "C", "D", "E"):
        letters = _CHOICE.findall(answer.upper()) or [answer.strip().strip(".")]
        if letters[-1] == gold:
            return True
    numbers = _number(answer), _number(gold)
    if numbers[0] is not None and numbers[1] is not None:
        readings = (numbers[1] / 100, numbers[1], numbers[1] * 100)
        return any(is_close(numbers[0], reading) for reading in readings)
    if not answer:
        return False
    answer, gold = answer.strip(), gold.strip()
    if "pmatrix" in answer and "pmatrix" not in gold:
        # ``{1,2}`` becomes a column; the tool writes a single backslash between its rows.
        columns = (found.strip("{}").replace(",", "\\") for found in _BRACED_LIST.findall(gold))
        gold = ", ".join(f"{_MATRIX_BEGIN}{column}{_MATRIX_END}" for column in columns)
    if _same_but_for_brackets(answer, gold):
        return True
    bracketed = _BRACKETED.match(answer) and _BRACKETED.match(gold)
    if bracketed and _parts_equal(answer[1:-1].split(","), gold[1:-1].split(",")):
        return True
    if _is_matrix(answer) and _is_matrix(gold) and _matrices_equal(answer, gold):
        return True
    return _equations_equal(answer, gold) or symbolically_equal(answer, gold)


def _number(text: str) -> float | None:
    text = text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        pass
    if not text.endswith("%"):
        return None
    try:
        return float(text[:-1].removesuffix("\\")) / 100
    except ValueError:
        return None


def _bare(text: str) -> str:
    return _BRACKETS.sub("", text).lower()


def _same_but_for_brackets(answer: str, gold: str) -> bool:
    """Square brackets count, unless the answer has a pair and the gold no round one there."""
    square = answer.startswith("[") and answer.endswith("]") and not gold.startswith("(")
    round_ = answer.startswith("(") and answer.endswith(")") and not gold.startswith("[")
    if square or round_:
        answer, gold = answer.strip("[]()"), gold.strip("[]()")
    return _bare(answer) == _bare(gold)


def _parts_equal(answer: list[str], gold: list[str]) -> bool:
    return len(answer) == len(gold) and all(map(qwen_equal, answer, gold))


def _is_matrix(text: str) -> bool:
    return text.startswith(_MATRIX_BEGIN) and text.endswith(_MATRIX_END)


def _matrices_equal(answer: str, gold: str) -> bool:
    rows = [
        [line.strip().split("&") for line in inside.split(r"\\") if line.strip()]
        for inside in (
            text.removeprefix(_MATRIX_BEGIN).removesuffix(_MATRIX_END) for text in (answer, gold)
        )
    ]
    return len(rows[0]) == len(rows[1]) and all(map(_parts_equal, rows[0], rows[1]))


def _equations_equal(answer: str, gold: str) -> bool:
    """Two equations by the difference of their sides; ``x=5`` and 5 by the right side."""
    sides, gold_sides = answer.split("="), gold.split("=")
    if len(sides) == len(gold_sides) == 2:
        one, other = _difference(sides), _difference(gold_sides)
        return symbolically_equal(one, other) or symbolically_equal(f"-({one})", other)
    if len(sides) == 2 and len(gold_sides) == 1 and len(sides[0].strip()) <= 2:
        return qwen_equal(sides[1], gold)
    if len(gold_sides) == 2 and len(sides) == 1 and len(gold_sides[0].strip()) <= 2:
        return qwen_equal(answer, gold_sides[1])
    return False


def _difference(sides: list[str]) -> str:
    return f"{sides[0].strip()} - ({sides[1].strip()})"


_LONGEST_ANSWER = 20_000


def make_qwen_grader(options: Mapping[str, Any]) -> Handler:
    """The worker's handler; ``options`` has ``memory_bytes``."""
    limit_address_space(options["memory_bytes"])
    # Only sympy can tell: no request pays for its grammar of LaTeX, which takes a second to load.
    assert qwen_equal(r"\frac{2}{4}x", r"\frac{1}{2}x")
    return grade_qwen


def grade_qwen(request: Mapping[str, str], _stage: TellStage) -> tuple[str, float, str]:
    """Grade a request ``{"response", "gold"}``: ``[outcome, reward, reason]``."""
    found, gold = qwen_answer(request["response"]), qwen_gold(request["gold"])
    if len(found) > _LONGEST_ANSWER:
        reason = f"the answer is longer than {_LONGEST_ANSWER} characters"
        return Outcome.OVER_LIMIT, 0.0, reason
    answer = qwen_spelling(found)
    # Whatever comes up is the answer's doing; the tool counts it as wrong, too.
    try:
        equal = qwen_equal(answer, gold)
    except Exception as error:  # noqa: BLE001
        return Outcome.INVALID, 0.0, f"{type(error).__name__}: {error}"[:200]
    if equal:
        return Outcome.CORRECT, 1.0, ""
    if not answer:
        return Outcome.NO_ANSWER, 0.0, "no answer was found in the response"
    return Outcome.WRONG, 0.0, f"{answer[:80]!r} is not {gold[:80]!r}"


def qwen_gold(gold: str) -> str:
    r"""The gold in the tool's spelling; a boxed one is found first.

    >>> qwen_gold(r"so \boxed{x = 5}"), qwen_gold("$d$")
    ('5', 'd')
    """
    return qwen_spelling(qwen_answer(gold) if "boxed" in gold else gold.strip(" $"))


# The tool's spelling is a long row of replacements; their order is a part of its behaviour, so are
# the oddities: percent signs, braces' backslashes, ``and`` and ``\mathbf`` vanish, ``x=`` does, and
# a ``j`` becomes an ``i`` where no ``i`` is. Some of the words that it drops as units are none
# (``ratio``, ``way``, ``no change``, single letters). A point in them stands for any character.
_IN_ORDER = (
    "east|degree|mph|kmph|ft|m sqaure| m east|sq m|deg|mile|q .|monkey|prime|ratio|"
    "profit of rs|rd|o|gm|p . m|lb|tile|per|dm|lt|gain|ab|way|west|a .|b .|c .|d .|e .|f .|"
    "g .|h .|t|a|h|no change|men|soldier|pie|bc|excess|st|inches|noon|percent|by|gal|kmh|c|"
    "acre|rise|a . m|th|\u03c0 r 2|sq|mark|l|toy|coin|sq . m|gallon|\u00b0 f|profit|minw|yr|"
    "women|feet|am|pm|hr|cu cm|square|are|rupee|rounds|cubic|cc|mtr|s|ohm|number|day|hour|"
    "minute|min|second|man|woman|sec|cube|mt|sq inch|mp|\u220f cm \u00b3|hectare|more|unit|"
    "cu . m|cm 2|rs .|rs|kg|g|month|km|m|cm|mm|apple|liter|loss|"
    "yard|pure|year|increase|decrease|d|less|Surface|"
    "litre|pi sq m|s .|metre|meter|inch"
)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    singular = _IN_ORDER.split("|")
    units = dict.fromkeys((*singular, *(f"{unit}s" for unit in singular)))
    return tuple((unit.partition(" .")[0], re.compile(rf"(^|\W){unit}($|\W)")) for unit in units)


def without_units(text: str) -> str:
    """The text without its units. A text that is nothing but a unit stays.

    >>> without_units("12 miles"), without_units("a")
    ('12 ', 'a')
    """
    for _ in range(2):
        for hint, pattern in _patterns():
            if hint in text:
                text = pattern.sub(r"\1\2", text) or text
    return text


# Number words are read as the tool does it, which is the only use of it: words that are no number
# are skipped, and loose numbers (``two of three``) run into one by rules of their own.

_SMALL = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = (
    {word: number for number, word in enumerate(_SMALL.split())}
    | {word: 10 * number for number, word in enumerate(_TENS, start=2)}
    | {"hundred": 100}
)
_SCALES = {"billion": 10**9, "million": 10**6, "thousand": 10**3}
_POINT = "point"
_MOST_DIGITS = 1000


def number_of_words(text: str) -> int | float | None:
    """The number that the number words of a text spell; None if there is none.

    Other words are skipped, and a text of nothing but digits is that number.

    >>> number_of_words("two hundred and five apples"), number_of_words("073")
    (205, 73)
    """
    plain = text.replace("-", " ").lower()
    if plain.isdecimal():
        return int(plain) if len(plain) <= _MOST_DIGITS else None
    words = [word for word in plain.split() if word in _VALUES or word in (*_SCALES, _POINT)]
    if not words or any(words.count(word) > 1 for word in (*_SCALES, _POINT)):
        return None
    place = words.index(_POINT) if _POINT in words else len(words)
    whole = _whole(words[:place])
    # ``one four`` is 0.14; anything but digits counts for nothing.
    digits = [_VALUES.get(word, 10) for word in words[place + 1 :]]
    if whole is None or not digits or max(digits) > 9:
        return whole
    return whole + float(f"0.{''.join(map(str, digits))}")


def _whole(words: Sequence[str]) -> int | None:
    """The groups before each scale and after the last, added; None when the scales do not fall."""
    if len(words) <= 1:
        return (_VALUES | _SCALES)[words[0]] if words else 0
    scales = [word for word in words if word in _SCALES]
    if scales != sorted(scales, key=lambda word: -_SCALES[word]):
        return None
    total, start = 0, 0
    for scale in scales:
        end = words.index(scale)
        group = _group(words[start:end])
        if group is None:
            return None
        total, start = total + group * _SCALES[scale], end + 1
    # A last word that is a scale counts twice when another scale stands before it.
    before = words.index(scales[-2]) + 1 if len(scales) > 1 else start
    return total + (_group(words[start:] or words[before:]) or 0)


def _group(words: Sequence[str]) -> int | None:
    """``two hundred five`` is 2 * 100 + 5, and any three numbers go the same way."""
    numbers = [(_VALUES | _SCALES)[word] for word in words]
    match numbers:
        case []:
            return None
        case [one, other] if 100 not in numbers:
            return one + other
        case [one, other, *more] if len(more) <= 2:
            return one * other + sum(more)
        case _:
            return numbers[0]


_ARRAY_BEGIN = re.compile(r"\\begin\{array\}\{[^}\n]*\}")
_TEXT_WORD = re.compile(r"\\text\{([a-zA-Z]+)\}")
_TEXT = re.compile(r"\\text\{([^}\n]*)\}")
_MBOX = re.compile(r"\\mbox\{[^}\n]*\}")
_SQUARED_UNIT = re.compile(r"(cm|inches)\}\^2")
_ZERO_DECIMALS = re.compile(r"(\d++)\.0*+($|[^\d])")
_BARE_ROOT = re.compile(r"\\sqrt(\w++)")
_INTEGER = re.compile(r"-?[0-9]{1,1000}")

_BEFORE_UNITS = (
    *(("bmatrix", "pmatrix"), ("tfrac", "frac"), ("dfrac", "frac"), ("\\neq", "\\ne")),
    *(("\\leq", "\\le"), ("\\geq", "\\ge"), ("\\left", ""), ("\\right", "")),
    *(("\\{", "{"), ("\\}", "}")),
)
_AFTER_UNITS = tuple((mark, "") for mark in ("^{\\circ}", "^\\circ", "\\$", "$", "\\(", "\\)"))
_NAMES = tuple((name + sign, "") for sign in ("=", "\\in", "\\to") for name in ("x", "y", "z"))
_AFTER_NAMES = (
    ("\\emptyset", "{}"),
    ("(-\\infty,\\infty)", "\\mathbb{R}"),
    ("\\%", ""),
    ("%", ""),
    (" .", " 0."),
    ("{.", "{0."),
)


def qwen_spelling(text: str) -> str:
    r"""The tool's spelling of an answer.

    >>> qwen_spelling(r"\dfrac12 \text{ cm}"), qwen_spelling("x = 3.0"), qwen_spelling("5\\%")
    ('\\frac{1}{2}', '3', '5')
    """
    text = text.strip().replace("\n", "").rstrip(".").replace("\\!", "")
    text = _ARRAY_BEGIN.sub(r"\\begin{pmatrix}", text).replace("\\end{array}", "\\end{pmatrix}")
    text = _replaced(text, _BEFORE_UNITS)
    text = _TEXT_WORD.sub(lambda found: _word_as_digits(found[1], found[0]), text)
    text = _SQUARED_UNIT.sub(r"\1}", text)
    before, text_mark, _ = text.partition("\\text{")
    text = (before if text_mark and text.endswith("}") else text).strip() or text
    text = without_units(text)
    text = _replaced(text, _AFTER_UNITS)
    text = _TEXT.sub(r"\1", _word_as_digits(text, text))
    text = _replaced(text, _NAMES)
    text = _replaced(text, _AFTER_NAMES)
    text = text.replace("infinity", "\\infty")
    if "\\infty" not in text:
        text = text.replace("inf", "\\infty")
    text = text.replace("+\\inity", "\\infty").replace("and", "").replace("\\mathbf", "")
    text = _MBOX.sub("", text)
    if "j" in text and "i" not in text:
        text = text.replace("j", "i")
    text = _ZERO_DECIMALS.sub(r"\1\2", text)
    if not text:
        return ""
    text = "0" + text if text.startswith(".") else text
    name, sign, value = text.partition("=")
    text = value if sign and len(name) <= 2 and "=" not in value else text
    text = _BARE_ROOT.sub(r"\\sqrt{\1}", text).replace(" ", "")
    return _slash_as_fraction(_braced_fractions(text))


def _replaced(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def _word_as_digits(words: str, otherwise: str) -> str:
    number = number_of_words(words)
    return otherwise if number is None else str(number)


def _braced_fractions(text: str) -> str:
    r"""``\frac12``, ``\frac1{2}`` and ``\frac{1}2`` get the braces that they lack."""
    first, *parts = text.split("\\frac")
    done = [first]
    for part in parts:
        if part.startswith("{"):
            done.append(part)
        elif len(part) < 2:
            return text
        elif part[1] == "{":
            done.append(f"{{{part[0]}}}{part[1:]}")
        else:
            done.append(f"{{{part[0]}}}{{{part[1]}}}{part[2:]}")
    return "\\frac".join(done)


def _slash_as_fraction(text: str) -> str:
    r"""``3/4`` is ``\frac{3}{4}``, when both are integers (or hold a root) and nothing else is."""
    top, sign, bottom = text.partition("/")
    if not sign or "/" in bottom:
        return text
    for side in (top, bottom):
        if "sqrt" not in side and not (_INTEGER.fullmatch(side) and str(int(side)) == side):
            return text
    return f"\\frac{{{top}}}{{{bottom}}}"
