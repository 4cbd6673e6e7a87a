"""The mathematics verifier ``math``, to train with."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.verifiers.math.answer import find_answer
    from dph.verifiers.math.pooled import MathPair
    from dph.verifiers.math.verifier import MathVerifier

__all__ = [
    "MathPair",
    "MathVerifier",
    "find_answer",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MathPair": "dph.verifiers.math.pooled",
        "MathVerifier": "dph.verifiers.math.verifier",
        "find_answer": "dph.verifiers.math.answer",
    },
)
