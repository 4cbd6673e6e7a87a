"""The child's side of the verifier ``math``: find the answer, try what is cheap, then sympy."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from dph._processes.workers.handler import BoundedCache, TellStage, limit_address_space
from dph._processes.workers.pool import GOLD_STAGE
from dph.records import Outcome
from dph.tasks.verifiers.math.answer import (
    LONGEST_ANSWER,
    Place,
    clean_answer,
    find_answer,
    has_box,
    last_boxes,
    same_spelling,
    trim_answer,
)
from dph.tasks.verifiers.math.expression import Reading, read_latex, read_text, readings_equal
from dph.tasks.verifiers.math.interval import as_sets
from dph.tasks.verifiers.math.notation import WIDE
from dph.tasks.verifiers.math.number import (
    contradicts_itself,
    notations_differ,
    numbers_equal,
    read_value,
    same_in_base,
)
from dph.tasks.verifiers.math.units import amounts, units_differ, without_unit
from dph.tasks.verifiers.turn import read_turn

ANSWER_STAGE = "answer"

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
ReadGold = Callable[[str], Reading]

_CORRECT: Judgement = (Outcome.CORRECT, "")
_NOTHING: Judgement = (Outcome.NO_ANSWER, "no answer was found in the response")


class _BadGoldError(Exception):
    """The gold is known to be bad."""


class MathGrader:
    """Grades requests ``{"response", "gold"}``; answers ``[outcome, reward, reason]``.

    ``bad_gold`` and ``gold_seconds`` are those of dph.tasks.verifiers.gold_judge.

    Args:
        phrases: final-answer phrases, lower case.
        any_expression: whether the last expression counts where there is no box and no phrase.
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
            if seconds := request.get("gold_seconds"):
                stage(GOLD_STAGE, seconds)
            else:
                stage(GOLD_STAGE)
            reading = read_latex(gold)
            self._golds.put(gold, reading)
            stage(ANSWER_STAGE)
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
    if equal is None and same_in_base(cleaned, wanted):
        equal = True
    if equal is None and any(
        differ(cleaned, wanted) for differ in (units_differ, notations_differ, _set_and_tuple)
    ):
        equal = False
    if equal is None:
        return None
    return _CORRECT if equal else _wrong(answer, gold)


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
    r"""Whether one is ``\{1, 2\}`` and the other ``(1, 2)``, which are the same to math-verify."""
    return any(
        _SET.fullmatch(one) and _TUPLE.fullmatch(other)
        for one, other in ((answer, gold), (gold, answer))
    )


def _prose_words(text: str) -> int:
    """Long words outside commands; a sentence is met by its spelling alone, no parser reads it."""
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
