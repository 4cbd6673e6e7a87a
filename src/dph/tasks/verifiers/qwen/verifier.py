"""The verifier ``math_qwen``: for scores that are compared with published ones."""

import re

from dph.tasks.verifiers.base import Gold
from dph.tasks.verifiers.math.verifier import PooledMathVerifier

# Of the tool's rules, the first whose mark occurs in the response decides:
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
    """Contents of the first braces of ``rest``, closed or not."""
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


class MathQwenVerifier(PooledMathVerifier):
    """Agrees with the Qwen2.5-Math evaluation tool, to compare scores with published ones.

    Do not train with it: it takes 100 times the right number and a hundredth of it for right,
    forgives 1e-4, drops signs of percent, units and some words, and reads ``1,2`` as 1.

    Args:
        workers: number of worker processes.
        timeout: seconds for one answer.

    Raises:
        SettingsError: sympy is missing, or ``workers`` or ``timeout`` is out of range.
    """

    name = "math_qwen"
    version = "2"

    def __init__(self, *, workers: int = 1, timeout: float = 5.0) -> None:
        handler = "dph.tasks.verifiers.qwen.equality:make_qwen_grader"
        super().__init__(handler=handler, options={}, workers=workers, timeout=timeout)

    def gold_of(self, response: str) -> Gold | None:
        """The answer that the tool finds."""
        found = qwen_answer(response)
        return {"answer": f"\\boxed{{{found}}}"} if found.strip() else None
