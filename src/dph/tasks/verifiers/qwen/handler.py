"""The child's side of the Qwen verifier: find the answer, respell it and the gold, compare."""

from collections.abc import Mapping
from typing import Any

from dph._processes.workers.handler import TellStage, limit_address_space
from dph.records import Outcome
from dph.tasks.verifiers.qwen.answer import qwen_answer
from dph.tasks.verifiers.qwen.equality import qwen_equal
from dph.tasks.verifiers.qwen.spelling import qwen_spelling

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
    """Compare two answers, so that no request pays for what the first comparison loads."""
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
