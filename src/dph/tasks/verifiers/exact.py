"""The verifiers ``number`` and ``exact``, which need no other process."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from dph._base.closing import Closing
from dph.errors import DataError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.base import Gold, refused
from dph.tasks.verifiers.turn import read_turn

# Numbers may have a sign, commas between thousands, decimals, an exponent, and a denominator
# (``3/4``, ``3 / 4``). Units and percent signs are ignored; words, LaTeX and mixed numbers are
# not understood. The comparison is between rationals, so 0.5 equals 1/2 and 0.33 is not 1/3.

_DIGITS = 1000
_EXPONENT = 1000
_SHOWN = 50

# Possessive throughout: hostile text is read once. A sign belongs to a number only if nothing
# that could be the left side of a subtraction stands directly before it.
_UNSIGNED = r"(?:[0-9]++(?:,[0-9]++)*+(?:\.[0-9]++)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+"
_NUMBER = re.compile(
    rf"(?P<top>(?:(?<![\w)\].])[+-])?(?<![\w.]){_UNSIGNED})"
    rf"(?: ?/ ?(?P<bottom>[+-]?{_UNSIGNED}))?+"
)
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})++")


class NumberTooLongError(ValueError):
    """The number has more digits, or a larger exponent, than is worth reading."""


def last_number(text: str) -> Fraction | None:
    """The last number in a text, or None.

    >>> last_number("that makes 1,250.50 in all"), last_number("so -3 / 4.")
    (Fraction(2501, 2), Fraction(-3, 4))
    """
    found = deque(_NUMBER.finditer(text.replace("\u2212", "-")), maxlen=1)
    if not found:
        return None
    last = found[0]
    bottom = last["bottom"]
    return _rational(last["top"]) / (_rational(bottom) if bottom else 1)


def _rational(text: str) -> Fraction:
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, decimals = mantissa.lstrip("+-").partition(".")
    if "," in whole and not _THOUSANDS.fullmatch(whole):
        # A list such as 1,2,3: its last element is the number, and the sign is the first one's.
        whole = whole.rpartition(",")[2]
        mantissa = whole
    digits = len(whole) + len(decimals)
    if digits > _DIGITS or len(exponent) > 6 or abs(int(exponent or 0)) > _EXPONENT:
        raise NumberTooLongError(f"the number has over {_DIGITS} digits")
    sign = -1 if mantissa.startswith("-") else 1
    scale = Fraction(10) ** (int(exponent or 0) - len(decimals))
    return sign * int(whole.replace(",", "") + decimals) * scale


def _shown(number: Fraction) -> str:
    text = str(number)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def _gold(problem: Problem) -> Fraction | None:
    if "answer" not in problem.answer:
        raise DataError(
            f"the number verifier needs 'answer' in problem {problem.problem_id!r}, "
            f"its fields are {sorted(problem.answer)}"
        )
    text = str(problem.answer["answer"]).strip()
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return last_number(text)
    except (NumberTooLongError, ZeroDivisionError):
        return None


class _AloneVerifier(Closing):
    """Grades each response in this process."""

    version = "2"
    settings: Mapping[str, Any] = MappingProxyType({})

    def grade(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """One verdict for each pair, in order.

        Raises:
            DataError: a problem has no ``answer``.
        """
        return [self._verdict(*pair) for pair in zip(problems, responses, strict=True)]

    def _verdict(self, problem: Problem, response: str) -> Verdict:
        raise NotImplementedError


class NumberVerifier(_AloneVerifier):
    """Compares the last number of the response with ``answer``."""

    name = "number"

    def _verdict(self, problem: Problem, response: str) -> Verdict:
        gold = _gold(problem)
        if gold is None:
            reason = f"the answer {problem.answer['answer']!r} is not a number"[:200]
            return refused(Outcome.BAD_GOLD, reason)
        try:
            number = last_number(read_turn(response).answer)
        except NumberTooLongError as error:
            return refused(Outcome.OVER_LIMIT, str(error))
        except ZeroDivisionError:
            return refused(Outcome.INVALID, "the denominator is 0")
        if number is None:
            return refused(Outcome.NO_ANSWER, "no number in the response")
        if number == gold:
            return Verdict(outcome=Outcome.CORRECT, reward=1.0)
        return refused(Outcome.WRONG, f"{_shown(number)} is not {_shown(gold)}")

    def gold_of(self, response: str) -> Gold | None:
        """The last number of an answer."""
        try:
            number = last_number(read_turn(response).answer)
        except (NumberTooLongError, ZeroDivisionError):
            return None
        return None if number is None else {"answer": str(number)}


class ExactVerifier(_AloneVerifier):
    """Compares the stripped response with ``answer``; upper and lower case differ."""

    name = "exact"

    def _verdict(self, problem: Problem, response: str) -> Verdict:
        if problem.answer.get("answer") is None:
            raise DataError(
                f"the exact verifier needs 'answer' in problem {problem.problem_id!r}, "
                f"its fields are {sorted(problem.answer)}"
            )
        given, gold = read_turn(response).answer.strip(), str(problem.answer["answer"]).strip()
        if not given:
            return refused(Outcome.NO_ANSWER, "the response is empty")
        if given == gold:
            return Verdict(outcome=Outcome.CORRECT, reward=1.0)
        return refused(Outcome.WRONG, f"{given[:60]!r} is not {gold[:60]!r}")

    def gold_of(self, response: str) -> Gold | None:
        """The whole answer."""
        answer = read_turn(response).answer.strip()
        return {"answer": answer} if answer else None
