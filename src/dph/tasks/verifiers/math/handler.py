"""The child's side of the verifier ``math``: find the answer, try what is cheap, then sympy."""

import cmath
import contextlib
import logging
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import sympy
from latex2sympy2_extended.math_normalization import normalize_latex
from math_verify.grader import verify
from math_verify.parser import LatexExtractionConfig, parse, parse_latex_cached
from sympy.core.evalf import PrecisionExhausted

from dph._processes.workers.handler import BoundedCache, TellStage, limit_address_space
from dph._processes.workers.pool import GOLD_STAGE
from dph.records import Outcome
from dph.tasks.verifiers.math.answer import (
    LONGEST_ANSWER,
    WIDE,
    Place,
    clean_answer,
    find_answer,
    has_box,
    last_boxes,
    same_spelling,
    trim_answer,
)
from dph.tasks.verifiers.math.interval import as_sets
from dph.tasks.verifiers.math.number import (
    contradicts_itself,
    notations_differ,
    numbers_equal,
    read_value,
    same_in_base,
)
from dph.tasks.verifiers.math.units import amounts, units_differ, without_unit
from dph.tasks.verifiers.turn import read_turn

_LONGEST_TEXT = 50_000
_DEEPEST = 50
_CHOICE = re.compile(r"\(?([A-J])\)?(?:[.:)].*)?", re.DOTALL)
_CHOICE_GOLD = re.compile(r"\(?([A-J])\)?")
_SET = re.compile(r"\\\{.*,.*\\\}", re.DOTALL)
_TUPLE = re.compile(r"\(.*,.*\)", re.DOTALL)
_LETTER = re.compile(r"\(?([A-Za-z])\)?")
_WORD = re.compile(r"(?<![\\A-Za-z])(?!and(?![A-Za-z]))[A-Za-z]{3,}")
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{4,}")
_SENTENCE = 4
_BRACKETS = re.compile(r"[{}()\[\]]")

Judgement = tuple[str, str]
Reading = tuple[Any, ...]
"""Parts of an answer that math-verify may compare: an expression, its text, or both."""
ReadGold = Callable[[str], Reading]

_CORRECT: Judgement = (Outcome.CORRECT, "")
_NOTHING: Judgement = (Outcome.NO_ANSWER, "no answer was found in the response")


class _BadGoldError(Exception):
    """The gold is known to be bad."""


class MathGrader:
    """Grades requests ``{"response", "gold"}``; answers ``[outcome, reward, reason]``.

    ``bad_gold`` and ``gold_seconds`` are those of dph.tasks.verifiers.base; ``phrases`` are in
    lower case. With ``any_expression`` the last one counts where there is no box and no phrase.
    """

    def __init__(self, *, phrases: Sequence[str], any_expression: bool) -> None:
        self._phrases = tuple(phrases)
        self._any_expression = any_expression
        self._golds: BoundedCache[str, Reading] = BoundedCache(4096)
        self._judged: BoundedCache[tuple[str, str], Judgement] = BoundedCache(16384)

    def __call__(self, request: Mapping[str, Any], stage: TellStage) -> tuple[str, float, str]:
        """Grade one response. ``stage`` tells the parent what is being read."""
        # Whatever sympy raises on the way is the answer's doing, not the verifier's.
        try:
            read_gold = partial(self._read_gold, request, stage)
            answer = read_turn(request["response"]).answer.replace("\r\n", "\n")
            outcome, reason = self._grade(answer, request["gold"], read_gold)
        except _BadGoldError as error:
            outcome, reason = Outcome.BAD_GOLD, str(error)
        except Exception as error:  # noqa: BLE001
            outcome, reason = Outcome.INVALID, f"{type(error).__name__}: {error}"[:200]
        return outcome, float(outcome == Outcome.CORRECT), reason

    def _grade(self, response: str, given: str, read_gold: ReadGold) -> Judgement:
        gold = gold_answer(given)
        if reason := _too_large(gold):
            return Outcome.BAD_GOLD, f"the gold answer is {reason}"
        found = find_answer(response, self._phrases)
        if found is None:
            if has_box(response):
                return Outcome.NO_ANSWER, "the box is not closed, or empty"
            return self._judge_text(response, gold, read_gold) if self._any_expression else _NOTHING
        parts = [trim_answer(part) for part in found.parts]
        if len(parts) > 1 and all(self._judge(part, gold, read_gold) == _CORRECT for part in parts):
            return _CORRECT
        answer = ", ".join(parts)
        if found.place is Place.PHRASE and _WORD.search(answer):
            return judge_cheaply(answer, gold) or self._judge_text(found.context, gold, read_gold)
        return self._judge(answer, gold, read_gold)

    def _judge(self, answer: str, gold: str, read_gold: ReadGold) -> Judgement:
        """Judge an answer that stands alone."""
        judgement = judge_cheaply(answer, gold) or self._judged.get((answer, gold))
        if judgement is None and max(_prose_words(answer), _prose_words(gold)) >= _SENTENCE:
            return _wrong(answer, gold)
        if judgement is None:
            cleaned = clean_answer(answer), clean_answer(gold)
            sets = as_sets(*cleaned)
            pair = (answer, gold) if sets == cleaned else sets
            judgement = self._compare(read_latex, *pair, read_gold)
            if judgement[0] == Outcome.WRONG:
                judgement = _wrong(answer, gold)
            self._judged.put((answer, gold), judgement)
        return judgement

    def _judge_text(self, text: str, gold: str, read_gold: ReadGold) -> Judgement:
        """Judge the answer that math-verify finds in running text."""
        return self._compare(read_text, text[-_LONGEST_TEXT:].translate(WIDE), gold, read_gold)

    def _compare(
        self, read: Callable[[str], Reading], answer: str, gold: str, read_gold: ReadGold
    ) -> Judgement:
        wanted = read_gold(gold)
        reading = read(answer)
        if not reading:
            return _NOTHING
        if readings_equal(reading, wanted):
            return _CORRECT
        if read is not read_latex:  # in its own words where math-verify gives them
            answer = next((v for v in reading if isinstance(v, str)), "the answer found")
        return _wrong(answer, gold)

    def _read_gold(self, request: Mapping[str, Any], stage: TellStage, gold: str) -> Reading:
        if reason := request.get("bad_gold"):
            raise _BadGoldError(reason)
        reading = self._golds.get(gold)
        if reading is None:
            longer = request.get("gold_seconds")
            stage(GOLD_STAGE, *([longer] if longer else []))
            reading = read_latex(gold)
            self._golds.put(gold, reading)
            stage("answer")
        return reading


def make_math_grader(options: Mapping[str, Any]) -> MathGrader:
    """The worker's handler: ``phrases``, ``any_expression`` and ``memory_bytes``."""
    limit_address_space(options["memory_bytes"])
    # It warns that its time limits are off, which they are meant to be.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    return MathGrader(phrases=options["phrases"], any_expression=options["any_expression"])


@lru_cache(maxsize=4096)
def gold_answer(gold: str) -> str:
    r"""The gold answer itself, trimmed: what its boxes hold, or a line of GSM8K, if it has any.

    >>> gold_answer(r"$\boxed{1}\boxed{2}$"), gold_answer("$ 5 $"), gold_answer("so:\n#### 7")
    ('1, 2', '5', '7')
    """
    boxes = ", ".join(last_boxes(gold))
    return trim_answer(boxes or (gold.rpartition("####")[2] if "####" in gold else gold))


def judge_cheaply(answer: str, gold: str) -> Judgement | None:
    """Judge two trimmed answers without sympy; None if that takes more.

    The same spelling is right. Numbers, letters of choices, and units that differ are decided here.
    """
    if not answer:
        return Outcome.NO_ANSWER, "the answer is empty"
    if reason := _too_large(answer):
        return Outcome.OVER_LIMIT, f"the answer is {reason}"
    if answer == gold:
        return _CORRECT
    cleaned, wanted = as_sets(clean_answer(answer), clean_answer(gold))
    if same_spelling(cleaned) == same_spelling(wanted):
        return _CORRECT
    if contradicts_itself(cleaned):
        return _wrong(answer, gold)
    equal = _numbers_equal(cleaned, wanted)
    if equal is None:
        equal = _letters_equal(same_spelling(cleaned), same_spelling(wanted))
    if equal or (equal is None and same_in_base(cleaned, wanted)):
        return _CORRECT
    tests = (units_differ, notations_differ, _set_and_tuple)
    if equal is None and not any(differ(cleaned, wanted) for differ in tests):
        return None
    return _wrong(answer, gold)


def _numbers_equal(answer: str, gold: str) -> bool | None:
    """None unless both are numbers, or of one unit; one that only one of them has is forgiven."""
    if r"\$" in answer + gold and units_differ(answer, gold):
        return False
    of_one_unit = amounts(answer, gold)
    one, other = of_one_unit or (answer, gold)
    number, wanted = read_value(one), read_value(other)
    if wanted and number is None and of_one_unit is None:
        number = read_value(without_unit(one))
    elif number and wanted is None and of_one_unit is None:
        wanted = read_value(without_unit(other))
    return numbers_equal(number, wanted) if number and wanted else None


def _letters_equal(answer: str, gold: str) -> bool | None:
    """None unless both are letters, or choices by letter; e is not E."""
    choice, wanted = _CHOICE.fullmatch(answer), _CHOICE_GOLD.fullmatch(gold)
    if not (choice and wanted):
        choice, wanted = _LETTER.fullmatch(answer), _LETTER.fullmatch(gold)
    return choice[1] == wanted[1] if choice and wanted else None


def _set_and_tuple(answer: str, gold: str) -> bool:
    r"""True if one is ``\{1, 2\}`` and the other ``(1, 2)``, which are the same to math-verify."""
    pairs = ((answer, gold), (gold, answer))
    return any(_SET.fullmatch(one) and _TUPLE.fullmatch(other) for one, other in pairs)


def _prose_words(text: str) -> int:
    """Long words outside commands; a sentence is compared by its spelling, no parser reads it."""
    return len(_PROSE.findall(text))


def _wrong(answer: str, gold: str) -> Judgement:
    return Outcome.WRONG, f"{answer[:80]!r} is not {gold[:80]!r}"


def _too_large(text: str) -> str:
    """Why a text is not worth reading, or ''."""
    if not text:
        return "empty"
    if len(text) > LONGEST_ANSWER:
        return f"longer than {LONGEST_ANSWER} characters"
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "{([" else -1
        deepest = max(deepest, depth)
    return f"nested deeper than {_DEEPEST}" if deepest > _DEEPEST else ""


# The time limits of math-verify, which are signals, are off: this runs in a worker that can be
# killed. Two of its habits are undone: differences below 1e-15 count as none (so that 2^-60 equals
# 2^-57), and decimals below 1e-6 are all equal. Here expressions also have to agree to a relative
# 1e-4 if a decimal was written; if none was, their difference must be zero to hundreds of digits.

_NORMALIZATION = LatexExtractionConfig().normalization_config
_DIGITS = 30
# What sympy sums or integrates numerically, for as long as it takes.
_ENDLESS = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative)
_DECIMAL_TOLERANCE = 1e-4
# Digits to which a difference of exact values is sought; with symbols, their fixed values have
# a few more digits than the terms must agree to.
_SOUGHT, _SYMBOL_DIGITS, _AGREED = 1000, 150, sympy.Float("1e-100")


def read_latex(text: str) -> Reading:
    """Read an answer that is known to be LaTeX, such as what a box holds."""
    normalized = text
    # math-verify compares what its parser cannot read, whatever that raises, as text.
    with contextlib.suppress(Exception):
        normalized = normalize_latex(text, _NORMALIZATION)
        return parse_latex_cached(normalized), normalized
    return (normalized,)


def read_text(text: str) -> Reading:
    """Find and read the answer in running text."""
    return tuple(parse(text, parsing_timeout=None))


def readings_equal(answer: Reading, gold: Reading) -> bool:
    """True if math-verify accepts the answer and the numbers confirm it."""
    one, other = answer[0], gold[0]
    if _hopeless(one, other) or _list_and_point(one, other):
        return False
    exact = _same_exact_number(one, other)
    if exact is not None:
        return exact
    # 0 <= x < 1 is the interval [0, 1), whichever of the two the gold says.
    interval = isinstance(other, sympy.Interval | sympy.Union)
    how = {"timeout_seconds": None, "allow_set_relation_comp": interval}
    if not verify(list(gold), list(answer), **how):
        return False
    return isinstance(one, str) or isinstance(other, str) or not numerically_differ(one, other)


def _hopeless(answer: Any, gold: Any) -> bool:
    """True if the two certainly differ, so that the slow math-verify is not needed."""
    one, other = _sides(answer, gold)
    if isinstance(one, sympy.Set) != isinstance(other, sympy.Set):
        single, several = (other, one) if isinstance(one, sympy.Set) else (one, other)
        return _is_value(single) and not isinstance(several, sympy.FiniteSet)
    if not (_is_value(one) and _is_value(other)) or _has_percent(one) or _has_percent(other):
        return False
    first, second = _value(one), _value(other)
    if first is None or second is None:
        return False
    return abs(first - second) > 1e-3 * max(1, abs(first), abs(second))


def _same_exact_number(answer: Any, gold: Any) -> bool | None:
    """True if two numbers without a decimal are one; None if one of them is not such a number."""
    for side in (answer, gold):
        if not _is_value(side) or side.free_symbols or side.has(sympy.Float, *_ENDLESS):
            return None
    if _has_percent(answer) or _has_percent(gold):
        return None
    differ = _exactly_differ(answer, gold)
    return None if differ is None else not differ


def _exactly_differ(answer: Any, gold: Any) -> bool | None:
    """True if exact values differ, at fixed values of their symbols; None if that is not known."""
    with contextlib.suppress(Exception):
        if not (answer.free_symbols or gold.free_symbols):
            try:
                # An exact difference has one right digit, at whatever precision that takes.
                difference = (answer - gold).evalf(2, maxn=_SOUGHT, strict=True)
            except PrecisionExhausted:
                return False
            return bool(difference != 0) if difference.is_number and difference.is_finite else None
        places = {name: _place(name.name) for name in answer.free_symbols | gold.free_symbols}
        one, other, difference = (
            each.evalf(_SYMBOL_DIGITS, subs=places) for each in (answer, gold, answer - gold)
        )
        largest = max(abs(one), abs(other))
        if largest.is_finite:
            return bool(abs(difference) > _AGREED * largest)
    return None


def _list_and_point(answer: Any, gold: Any) -> bool:
    """True if one is a list (``1, 2``), the other a point, interval or inequality (``(1, 2)``).

    They are the same to math-verify. A list of equations (``x = 1, y = 2``) may well say where a
    point is, and a single value is not a list.
    """
    for one, other in (_sides(answer, gold), _sides(gold, answer)):
        point = isinstance(other, sympy.Interval | sympy.Tuple) or (
            isinstance(other, sympy.Basic) and bool(other.atoms(sympy.core.relational._Inequality))
        )
        if isinstance(one, sympy.FiniteSet) and point:
            return len(one) > 1 and all(isinstance(element, sympy.Expr) for element in one.args)
    return False


def _is_value(expression: Any) -> bool:
    return isinstance(expression, sympy.Expr) and not isinstance(expression, sympy.Symbol)


def numerically_differ(answer: Any, gold: Any) -> bool:
    """True if two expressions, or their parts, have values that are surely not the same.

    Symbols get fixed values. Where the values cannot be had, the answer is no.
    """
    if isinstance(answer, sympy.Eq) and isinstance(gold, sympy.Eq) and _apart(answer, gold):
        return True
    one, other = (_explicit(side) for side in _sides(answer, gold))
    matrices = isinstance(one, sympy.MatrixBase) and isinstance(other, sympy.MatrixBase)
    if matrices and one.shape != other.shape:
        return True
    return any(_values_differ(*pair) for pair in _pairs(one, other))


def _apart(answer: sympy.Eq, gold: sympy.Eq) -> bool:
    """True if two equations cannot be the same one.

    math-verify compares what their solvers find, and where neither finds anything says yes.
    """
    if not (answer.free_symbols and gold.free_symbols):
        sides = ((answer.lhs, gold.lhs), (answer.rhs, gold.rhs))
        return answer.free_symbols != gold.free_symbols or any(
            _values_differ(*pair) for pair in sides
        )
    return bool(answer.lhs == gold.lhs and answer.free_symbols != gold.free_symbols)


def _explicit(expression: Any) -> Any:
    """Sums and multiples of matrices, entry by entry."""
    if isinstance(expression, sympy.MatrixExpr):
        with contextlib.suppress(Exception):
            return expression.as_explicit()
    return expression


def _sides(answer: Any, gold: Any) -> tuple[Any, Any]:
    """Expressions that must be equal: the right sides of ``x = ...``, two equations unchanged."""
    both = isinstance(answer, sympy.Eq) and isinstance(gold, sympy.Eq)
    if both and answer.lhs != gold.lhs:
        return answer, gold
    one, other = (side.rhs if isinstance(side, sympy.Eq) else side for side in (answer, gold))
    return one, other


def _pairs(answer: Any, gold: Any) -> Iterator[tuple[Any, Any]]:
    """The numbers to compare: entries, end points, elements by size, or the two themselves."""
    if isinstance(answer, sympy.MatrixBase) and isinstance(gold, sympy.MatrixBase):
        yield from zip(answer.flat(), gold.flat(), strict=True)
    elif isinstance(answer, sympy.Interval) and isinstance(gold, sympy.Interval):
        yield from ((answer.start, gold.start), (answer.end, gold.end))
    elif isinstance(answer, sympy.FiniteSet) and isinstance(gold, sympy.FiniteSet):
        parts = [_by_size(collection) for collection in (answer, gold)]
        if len(parts[0]) == len(parts[1]):
            yield from zip(*parts, strict=True)
    elif isinstance(answer, sympy.Tuple) and isinstance(gold, sympy.Tuple):
        if len(answer) == len(gold):
            yield from zip(answer, gold, strict=True)
    elif isinstance(answer, sympy.Expr) and isinstance(gold, sympy.Expr):
        yield answer, gold


def _by_size(collection: Any) -> list[Any]:
    """The elements by their values; none if one has no real value."""
    sized: list[tuple[float, Any]] = []
    for element in collection.args:
        value = _value(element)
        if value is None or value.imag:
            return []
        sized.append((value.real, element))
    return [element for _, element in sorted(sized, key=lambda pair: pair[0])]


def _values_differ(answer: Any, gold: Any) -> bool:
    if not (isinstance(answer, sympy.Expr) and isinstance(gold, sympy.Expr)):
        return False
    if answer.free_symbols != gold.free_symbols or _has_percent(answer) != _has_percent(gold):
        return False
    if answer.has(*_ENDLESS) or gold.has(*_ENDLESS):
        return False
    if not (answer.has(sympy.Float) or gold.has(sympy.Float)):
        return _exactly_differ(answer, gold) or False
    one, other = _value(answer), _value(gold)
    if one is None or other is None:
        return False
    return abs(one - other) > _DECIMAL_TOLERANCE * max(abs(one), abs(other))


def _has_percent(expression: Any) -> bool:
    return bool(expression.has(sympy.core.expr.UnevaluatedExpr))


def _value(expression: Any) -> complex | None:
    """A finite complex number, or None; each symbol gets a different value between 1 and 2."""
    if not isinstance(expression, sympy.Expr) or expression.has(*_ENDLESS):
        return None
    symbols = expression.free_symbols
    places = {symbol: _place(symbol.name) for symbol in symbols}
    # sympy may fail to evaluate what math-verify could compare; then there is no objection.
    with contextlib.suppress(Exception):
        value = complex(expression.evalf(_DIGITS, subs=places))
        if cmath.isfinite(value):
            return value
    return None


def _place(name: str) -> Any:
    """A number between 1 and 2 that depends only on a symbol's name."""
    # A float: exact fractions grow without bound in powers.
    return sympy.Float(1 + (zlib.crc32(name.encode()) % 9973 + 1) / 9974, _SYMBOL_DIGITS)
