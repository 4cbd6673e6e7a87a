"""The child's side of the Qwen verifier: find the answer, respell it and the gold, compare."""

import re
from collections.abc import Mapping
from typing import Any

from dph._processes.workers.handler import TellStage, limit_address_space
from dph.records import Outcome
from dph.tasks.verifiers.qwen.equality import qwen_equal
from dph.tasks.verifiers.qwen.spelling import qwen_spelling

# Where the Qwen2.5-Math evaluation tool finds the answer of a response.
#
# The first rule whose mark occurs in the response decides:
#
# 1. ``final answer is $...$. I hope`` (the Minerva prompt): what stands between;
# 2. ``boxed``: the braces after its last occurrence, or the text up to the next ``$``;
# 3. ``he answer is``, then ``final answer is``: everything after the last occurrence;
# 4. the same phrase in Chinese: the paragraph after the first occurrence;
# 5. the last number of the response, thousands separators removed.

_MINERVA_START, _MINERVA_END = "final answer is $", "$. I hope"
_PHRASES = ("he answer is", "final answer is")
_CHINESE_PHRASE = "\u7b54\u6848\u662f"
# Possessive: without a point after them, digits are read once.
_NUMBER = re.compile(r"-?(?:\d*\.\d++|\d++)")
_LINE_BREAK = re.compile(r"\n\s*")


def qwen_answer(response: str) -> str:
    r"""The answer in a response, not yet respelled; empty if there is none.

    >>> qwen_answer(r"so $x = \boxed{\frac{1}{2}}$."), qwen_answer("A: 1,200 or 30")
    ('\\frac{1}{2}', '30')
    """
    answer = _LINE_BREAK.sub("", _found(response))
    answer = answer.removeprefix(":").removesuffix(".")
    return answer.removesuffix("/")


def _found(response: str) -> str:
    if _MINERVA_START in response and _MINERVA_END in response:
        after = response.partition(_MINERVA_START)[2]
        return after.partition(_MINERVA_END)[0].strip()
    if "boxed" in response:
        return _boxed(response.rpartition("boxed")[2])
    for phrase in _PHRASES:
        if phrase in response:
            return response.rpartition(phrase)[2].strip()
    if _CHINESE_PHRASE in response:
        after = response.split(_CHINESE_PHRASE)[1]
        return after.strip().partition("\n\n")[0].strip()
    numbers = _NUMBER.findall(response.replace(",", ""))
    return numbers[-1] if numbers else ""


def _boxed(rest: str) -> str:
    """What ``rest`` holds in its first braces, closed or not."""
    if not rest.startswith("{"):
        return rest.partition("$")[0].strip()
    depth = 0
    for place, character in enumerate(rest):
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if not depth:
                return rest[1:place]
    return rest[1:]


_LONGEST_ANSWER = 20_000
_SAME = (r"\frac{2}{4}x", r"\frac{1}{2}x")
"""Equal, and only sympy can tell: its grammar of LaTeX takes most of a second to load."""


class QwenGrader:
    """Grades requests ``{"response", "gold"}``; answers ``[outcome, reward, reason]``."""

    def __call__(self, request: Mapping[str, str], stage: TellStage) -> tuple[str, float, str]:
        """Grade one response; nothing is staged."""
        del stage
        outcome, reason = _judge(request["response"], qwen_gold(request["gold"]))
        return outcome, float(outcome == Outcome.CORRECT), reason


def make_qwen_grader(options: Mapping[str, Any]) -> QwenGrader:
    """The worker's handler; ``options`` has ``memory_bytes``."""
    limit_address_space(options["memory_bytes"])
    _read_grammar()
    return QwenGrader()


def _read_grammar() -> None:
    """Compare two answers, so that no request's time goes on what the first comparison loads."""
    assert qwen_equal(*_SAME)


def _judge(response: str, gold: str) -> tuple[str, str]:
    """The outcome and its reason."""
    found = qwen_answer(response)
    if len(found) > _LONGEST_ANSWER:
        return Outcome.OVER_LIMIT, f"the answer is longer than {_LONGEST_ANSWER} characters"
    answer = qwen_spelling(found)
    # Whatever comes up is the answer's doing; the tool counts it as wrong, too.
    try:
        equal = qwen_equal(answer, gold)
    except Exception as error:  # noqa: BLE001
        return Outcome.INVALID, f"{type(error).__name__}: {error}"[:200]
    if equal:
        return Outcome.CORRECT, ""
    if not answer:
        return Outcome.NO_ANSWER, "no answer was found in the response"
    return Outcome.WRONG, f"{answer[:80]!r} is not {gold[:80]!r}"


def qwen_gold(gold: str) -> str:
    r"""The gold in the tool's spelling; a boxed one is found first.

    >>> qwen_gold(r"so \boxed{x = 5}"), qwen_gold("$d$")
    ('5', 'd')
    """
    return qwen_spelling(qwen_answer(gold) if "boxed" in gold else gold.strip(" $"))
