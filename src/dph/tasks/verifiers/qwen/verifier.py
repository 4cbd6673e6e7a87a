"""The verifier ``math_qwen``: for scores that are compared with published ones."""

from dph.tasks.verifiers.base import Gold, GoldOfAnswer, Verifier
from dph.tasks.verifiers.math.verifier import PooledMathVerifier
from dph.tasks.verifiers.qwen.answer import qwen_answer


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
        super().__init__(
            handler="dph.tasks.verifiers.qwen.handler:make_qwen_grader",
            options={},
            workers=workers,
            timeout=timeout,
        )


def _qwen(_: Verifier, response: str) -> Gold | None:
    found = qwen_answer(response)
    return {"answer": f"\\boxed{{{found}}}"} if found.strip() else None


GOLD = GoldOfAnswer(make=_qwen)
